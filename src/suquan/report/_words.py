"""Numbers, values and targets in words, as the sections of the report show them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from suquan.plotting._targets import nearest_target
from suquan.report._page import Table

TARGET_IS = "The target is the distribution of values that every sample is given."
# Root mean square distance below which two targets look alike; their correlation is then 0.955 or more.
_ALIKE = 0.3


def plain(value: Any) -> str:
    """Write a value as a person would."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {plain(item)}" for name, item in value.items()) or "none"
    if isinstance(value, np.ndarray | list | tuple | set | frozenset):
        items = [plain(item) for item in np.ravel(np.array(list(value), dtype=object)).tolist()]
        more = f", … ({len(items)} in all)" if len(items) > 12 else ""
        return ", ".join(items[:12]) + more or "none"
    return "none" if value is None else str(value)


def shape_of(f: np.ndarray) -> str:
    """Say how a target compares with the named ones, to end a sentence with."""
    name, distance = nearest_target(f)
    name = name.replace("cauchy", "Cauchy")
    told = f"(root mean square distance {distance:.2f}, on a scale where the target has 1)"
    if distance > _ALIKE:
        return f"unlike the named distributions: the nearest is the {name} one {told}"
    return f"close to the {name} distribution {told}"


def listed(names: Sequence[str]) -> str:
    """Write names in a sentence."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def listing(
    caption: str, values: Mapping[str, Any], columns: tuple[str, str], *, folded: bool = False
) -> Table:
    """Make a table of names and values."""
    rows = [(str(name), plain(value)) for name, value in values.items()]
    return Table(caption, columns, rows, folded=folded)


def score(value: float, form: str = ".4f") -> str:
    """Write a number, or a dash where there is none."""
    return f"{value:{form}}" if np.isfinite(value) else "–"


def signed(value: float) -> str:
    """Write a difference, with its sign."""
    return score(value, "+.4f")


def interval(low: float, high: float) -> str:
    """Write an interval of differences."""
    return f"{low:+.4f} to {high:+.4f}" if np.isfinite(high - low) else "–"


def p_text(value: float) -> str:
    """Write a p-value with the digits that matter."""
    return "< 0.0001" if value < 1e-4 else score(value, ".4f" if value < 0.01 else ".3f")


def spread(values: np.ndarray) -> str:
    """Write the median, and lowest to highest where they differ."""
    known = values[np.isfinite(values)]
    if not known.size:
        return "–"
    low, middle, high = known.min(), np.median(known), known.max()
    return f"{middle:.3g}" + (f" ({low:.3g} to {high:.3g})" if low < high else "")
