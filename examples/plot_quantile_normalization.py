"""Quantile normalisation takes the scale of each sample out.
==============================================================

Sixty samples of two thousand features share one profile, but each was measured through an increasing map of
its own. Only the order within a sample survives that. Quantile normalisation keeps the order, gives all
samples the same values, and so makes the features comparable again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np

from suquan import quantile_normalize
from suquan.datasets import make_distorted_samples

INK, SAMPLE, MIDDLE = "#1f2933", "#2a6f97", "#c8553d"


def spread(X: np.ndarray) -> tuple[float, float]:
    """Standard deviations, between samples, of their medians and interquartile ranges."""
    low, middle, high = np.percentile(X, [25, 50, 75], axis=1)
    return middle.std(), (high - low).std()


def agreement(X: np.ndarray, X_true: np.ndarray) -> float:
    """Median over the features of the correlation with the true values, across samples."""
    Z, Z_true = X - X.mean(axis=0), X_true - X_true.mean(axis=0)
    return np.median((Z * Z_true).sum(0) / np.sqrt((Z**2).sum(0) * (Z_true**2).sum(0)))


def draw(before: np.ndarray, after: np.ndarray, path: Path) -> None:
    """Densities of all samples, and their quartiles side by side, before and after."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex="col", sharey="row")
    low, high = np.percentile(before, [0.2, 99.8])
    bins = np.linspace(low, high, 90)
    smooth = np.hanning(9) / np.hanning(9).sum()
    rows = np.argsort(np.median(before, axis=1))
    for (top, bottom), X, title in zip(
        axes.T, (before, after), ("Before", "After quantile normalisation"), strict=True
    ):
        for x in X:
            density = np.convolve(np.histogram(x, bins, density=True)[0], smooth, "same")
            top.plot((bins[1:] + bins[:-1]) / 2, density, color=SAMPLE, alpha=0.35, lw=0.9)
        q05, q25, q50, q75, q95 = np.percentile(X[rows], [5, 25, 50, 75, 95], axis=1)
        place = np.arange(len(X))
        bottom.hlines(place, q05, q95, color=SAMPLE, alpha=0.35, lw=1, label="5% to 95%")
        bottom.hlines(place, q25, q75, color=SAMPLE, lw=1.8, label="quartiles")
        bottom.plot(q50, place, "o", color=MIDDLE, ms=3, label="median")
        top.set_title(title, loc="left", color=INK, fontweight="bold")
        bottom.set_xlabel("value")
        bottom.set_xlim(low, high)
    axes[0, 0].set_ylabel("density, one line per sample")
    axes[1, 0].set_ylabel("sample, in order of its median")
    axes[1, 1].legend(frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    """Simulate, normalise, print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    folder = parser.parse_args().out

    X, X_true = make_distorted_samples(n_samples=60, n_features=2000, random_state=0)
    quantile_normalize(X[:2], "mean")  # the first call compiles
    start = time.perf_counter()
    X_normalised = quantile_normalize(X, "mean")
    elapsed = time.perf_counter() - start

    print(f"\n{X.shape[0]} samples x {X.shape[1]} features, each sample on a scale of its own\n")
    print(f"{'':46}{'before':>8}{'after':>8}")
    names = ("sd of the medians between samples", "sd of the interquartile ranges")
    for name, old, new in zip(names, spread(X), spread(X_normalised), strict=True):
        print(f"{name:46}{old:8.3f}{new:8.3f}")
    old, new = agreement(X, X_true), agreement(X_normalised, X_true)
    print(f"{'correlation with the true values, per feature':46}{old:8.3f}{new:8.3f}")
    print(f"\nquantile_normalize took {1e3 * elapsed:.1f} ms")

    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / "quantile_normalization.png"
    draw(X, X_normalised, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
