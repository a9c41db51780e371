"""Samples before and after normalisation: a fitted estimator and samples come in, two pictures go out."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from suquan._validation import check_choice
from suquan.plotting._axes import COLORS, finish, make_axes, shown_places

# More samples than this cannot be told apart in one picture.
_MAX_SAMPLES = 60


class NormalizedSampleDisplay:
    """Samples before and after normalisation: their distributions, or one sample as an image.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    before, after : array-like of shape (n_samples, n_features)
    shape : tuple of int, default=None
        (height, width), or (height, width, 3) for colours: samples are images of this shape.

    Attributes
    ----------
    artists_ : list of two lists
        What was drawn before and after.
    ax_, figure_ : ndarray of two matplotlib Axes, and Figure

    Examples
    --------
    >>> from suquan import QuantileNormalizer
    >>> from suquan.datasets import make_distorted_samples
    >>> from suquan.plotting import NormalizedSampleDisplay
    >>> X, _ = make_distorted_samples(10, 50, random_state=0)
    >>> display = NormalizedSampleDisplay.from_estimator(QuantileNormalizer("normal").fit(X), X)
    >>> [ax.get_title() for ax in display.ax_]
    ['before', 'after']
    """

    def __init__(self, before: Any, after: Any, *, shape: tuple[int, ...] | None = None) -> None:
        self.before = np.atleast_2d(np.asarray(before, dtype=np.float64))
        self.after = np.atleast_2d(np.asarray(after, dtype=np.float64))
        if self.before.shape != self.after.shape or self.before.ndim != 2:
            raise ValueError(
                "before and after must be the same samples in rows; got shapes "
                f"{self.before.shape} and {self.after.shape}."
            )
        if not self.before.size:
            raise ValueError(f"there is no value to draw; got shape {self.before.shape}.")
        self.shape = None if shape is None else tuple(int(n) for n in np.ravel(shape))
        if self.shape is None:
            return
        n_features = self.before.shape[1]
        if (len(self.shape) != 2 and self.shape[2:] != (3,)) or np.prod(self.shape) != n_features:
            raise ValueError(
                f"shape must be (height, width) or (height, width, 3) with {n_features} values in all, one "
                f"per feature; got {self.shape}."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        shape: tuple[int, ...] | None = None,
        sample: int = 0,
        kind: str = "quantiles",
        ax: Any = None,
    ) -> Self:
        """Normalise samples with a fitted estimator and draw them before and after.

        Parameters
        ----------
        estimator : fitted estimator with `transform`
            Of one with several targets the copy of the first is drawn.
        X : array-like of shape (n_samples, n_features)
        shape : tuple of int, default=None
            (height, width) or (height, width, 3): draw one sample as an image.
        sample : int, default=0
            Which one.
        kind : {"quantiles", "density"}, default="quantiles"
            One row per sample with its median, quartiles and 5% and 95% points; or one histogram line
            per sample. Of more than 60 samples every so-manieth is drawn.
        ax : sequence of two matplotlib Axes, default=None
        """
        if not hasattr(estimator, "transform"):
            raise ValueError(
                f"{type(estimator).__name__} has no transform; give an estimator that normalises "
                "samples, such as QuantileNormalizer or SuquanClassifier."
            )
        check_is_fitted(estimator)
        after = np.asarray(estimator.transform(X))[:, : estimator.n_features_in_]
        return cls(X, after, shape=shape).plot(kind, sample=sample, ax=ax)

    def plot(self, kind: str = "quantiles", *, sample: int = 0, ax: Any = None) -> Self:
        """Draw on the two axes `ax`, or on a new figure; see :meth:`from_estimator`."""
        check_choice("kind", kind, ("quantiles", "density"))
        if not -len(self.before) <= sample < len(self.before):
            raise ValueError(
                f"sample must be the number of one of the {len(self.before)} samples; got {sample}."
            )
        self.ax_, self.figure_ = make_axes(ax, n=2, size=(8, 3.6))
        rows = shown_places(len(self.before), _MAX_SAMPLES, 0)
        if kind == "quantiles":
            rows = rows[np.argsort(_quantiles(self.before[rows], 0.5), kind="stable")]
        self.artists_ = []
        for axis, X, title in zip(
            self.ax_, (self.before, self.after), ("before", "after"), strict=True
        ):
            axis.set_title(title)
            if self.shape is not None:
                self.artists_.append([_draw_image(axis, X[sample].reshape(self.shape))])
                continue
            draw = _draw_densities if kind == "density" else _draw_quantiles
            self.artists_.append(draw(axis, X[rows]))
            axis.set_xlabel("value")
            finish(axis)
        first = self.ax_[0]
        if self.shape is None and kind == "density":
            first.set_ylabel("density")
        elif self.shape is None:  # rows are in order: this corner is free
            first.set_ylabel("sample, in order of its median before")
            first.legend(frameon=False, fontsize="small", loc="lower right")
        return self


def _quantiles(X: np.ndarray, q: Any) -> np.ndarray:
    """Quantiles of each sample over its observed values; NaN for samples without any."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
        return np.nanquantile(X, q, axis=1)


def _draw_quantiles(ax: Any, X: np.ndarray) -> list[Any]:
    low, first, median, third, high = _quantiles(X, [0.05, 0.25, 0.5, 0.75, 0.95])
    place, color = np.arange(len(X)), COLORS["fixed"]
    return [
        ax.hlines(place, low, high, color=color, alpha=0.35, lw=1, label="5% to 95%"),
        ax.hlines(place, first, third, color=color, lw=1.8, label="quartiles"),
        ax.plot(median, place, "o", color=COLORS["learned"], ms=3, label="median")[0],
    ]


def _draw_densities(ax: Any, X: np.ndarray) -> list[Any]:
    """Draw one histogram line per sample, on bins that leave out the outermost values."""
    values = X[np.isfinite(X)]
    if not values.size:
        raise ValueError("there is no finite value to draw.")
    bins = np.histogram_bin_edges(values, 40, np.quantile(values, [0.002, 0.998]))
    counts = np.array([np.histogram(x[np.isfinite(x)], bins)[0] for x in X])
    density = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) / np.diff(bins)
    middles = 0.5 * (bins[1:] + bins[:-1])
    lines = ax.plot(middles, density.T, color=COLORS["fixed"], alpha=0.4, lw=1)
    ax.set_ylim(bottom=0)
    return lines


def _draw_image(ax: Any, image: np.ndarray) -> Any:
    if image.ndim == 3:  # colours must lie between 0 and 1
        low, high = np.nanmin(image), np.nanmax(image)
        image = (image - low) / (high - low if high > low else 1.0)
    ax.set_axis_off()
    return ax.imshow(image, cmap="gray", interpolation="nearest")
