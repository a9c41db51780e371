"""Labels of a fit: their units, the classes of which every fold gets its share, and samples compared apart.

The settings, the folds and the rounds of a fit call these.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from suquan.losses import Array, Huber, Loss, Squared


class Units(NamedTuple):
    """Units of labels in a fit, z = (y − centre) / scale, and the scale's square."""

    centre: float = 0.0
    scale: float = 1.0
    square: float = 1.0


def standardise(loss: Loss, y: Array, weights: Array, centred: bool) -> tuple[Loss, Array, Units]:
    """Shift and scale the labels of squared and Huber losses, so that fits to a·y + b follow a and b.

    The labels get the root mean square 1, and the mean 0 if they are `centred`. Other losses stay as they are.
    """
    used = weights > 0.0
    if type(loss) not in (Squared, Huber) or not np.any(y[used]):
        return loss, y, Units()
    s, largest = weights[used] / weights.sum(), float(np.abs(y[used]).max())
    z = y[used] / largest  # squares of y itself may overflow, or vanish
    centre = (float(z[0]) if np.ptp(z) == 0.0 else float(s @ z)) if centred else 0.0
    deviation, tiny = float(np.sqrt(s @ (z - centre) ** 2)), float(np.finfo(float).tiny)
    centre, scale = centre * largest, max(deviation * largest, tiny) if deviation > 0.0 else 1.0
    if isinstance(loss, Huber):
        loss = replace(loss, delta=loss.delta / scale)
    return loss, (np.where(used, y, centre) - centre) / scale, Units(centre, scale, scale * scale)


def classes_of_folds(loss: Loss, y: Array, n_folds: int) -> Array | None:
    """Classes of which every fold has its share: those of y, what the loss says, or None."""
    if loss.is_classification:
        return y
    find = getattr(loss, "fold_classes", None)
    return None if find is None else find(y, n_folds)


def labels_apart(loss: Any, y: Array, parts: Array) -> Array:
    """Labels of samples whose scores are comparable within the parts only, numbered from 0."""
    return loss.separate(y, parts) if loss.couples_samples else y
