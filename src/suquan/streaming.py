"""Quantile normalisation of tables in files, in blocks of samples: memory does not grow with the samples."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from suquan._validation import check_choice
from suquan.io import Table, TableWriter, iter_row_blocks
from suquan.preprocessing import quantile_normalize
from suquan.ranking import MISSING, TIES, SampleOperator
from suquan.targets import (
    LEARNED,
    finite_target,
    learn_target,
    make_target_quantiles,
    median_rows,
    sort_samples,
)

__all__ = ["NormalizedFile", "normalize_file"]

VALUES_AT_ONCE = 1 << 20  # values of the sorted samples that are looked at together, 8 MiB


@dataclass(frozen=True)
class NormalizedFile:
    """What :func:`normalize_file` did.

    Attributes
    ----------
    n_samples, n_features, n_missing : int
        `n_missing`: values that were and are missing.
    target_quantiles : ndarray of shape (n_features,)
    orientation : {"rows", "columns"}
        Where the samples lay in the file.
    n_passes : int
        How often the file was read.
    """

    n_samples: int
    n_features: int
    n_missing: int
    target_quantiles: np.ndarray
    orientation: str
    n_passes: int


def normalize_file(
    source: str | os.PathLike,
    destination: str | os.PathLike,
    target_quantiles: Any = "median",
    *,
    ties: str = "average",
    missing: str = "error",
    samples: str = "auto",
    layer: str | None = None,
    label_columns: Iterable[str] = (),
    ignore_columns: Iterable[str] = (),
    rows_per_block: int | None = None,
    n_jobs: int | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> NormalizedFile:
    r"""Normalise the table of one file into another, with bounded memory.

    Memory holds a block of samples where they lie in rows (see :func:`suquan.io.iter_row_blocks`). Targets that
    do not look at the samples take one pass; the mean takes two. The median takes two, and a temporary file
    beside the destination that holds the sorted samples; it is exact. The result is that of
    :func:`quantile_normalize`, but for rounding in the sum of a mean.

    Parameters
    ----------
    source, destination : path
        Any kinds that :func:`suquan.io.read_table` and :func:`suquan.io.write_table` know. The samples stay
        where they are, in rows or in columns. The destination appears when it is complete.
    target_quantiles : str, distribution, callable or array-like, default="median"
        As for :func:`quantile_normalize`, but an array of another length is interpolated.
    ties, missing
        As for :func:`quantile_normalize`.
    samples, layer, label_columns, ignore_columns
        As for :func:`suquan.io.read_table`; labels are copied as they are.
    rows_per_block : int, default=None
        Samples in memory at a time; None: about 32 MiB of values.
    n_jobs : int, default=None
        Threads.
    progress : callable, default=None
        Gets what is being done and the number of samples so far, after every block.

    Returns
    -------
    NormalizedFile

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from suquan.streaming import normalize_file
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "in.csv").write_text("sample,a,b,c\ns1,5,4,3\ns2,2,8,2\n")
    >>> normalize_file(folder / "in.csv", folder / "out.csv", "mean").n_passes
    2
    >>> print((folder / "out.csv").read_text(), end="")
    sample,a,b,c
    s1,6.5,3.0,2.5
    s2,2.75,6.5,2.75
    """
    check_choice("ties", ties, TIES)
    check_choice("missing", missing, MISSING)
    options: dict[str, Any] = {"samples": samples, "layer": layer, "rows_per_block": rows_per_block}
    options["label_columns"] = list(label_columns)  # read twice
    options["ignore_columns"] = list(ignore_columns)

    def blocks(what: str) -> Iterator[Table]:
        count = 0
        for block in iter_row_blocks(source, **options):
            if missing == "error":
                _refuse_gaps(block)
            yield block
            count += block.n_samples
            if progress is not None:
                progress(what, count)

    # Refuses a place that cannot be written to, before the work begins.
    writer = TableWriter(destination)
    f: Any = None
    learns = isinstance(target_quantiles, str) and target_quantiles in LEARNED
    if learns:
        values = _with_values(blocks(f"learning the {target_quantiles}"))
        if target_quantiles == "mean":
            f = _streamed_mean(values, n_jobs)
        else:
            f = _streamed_median(values, n_jobs, Path(destination).resolve().parent)
    n_samples = n_missing = 0
    with writer:
        for block in blocks("normalising"):
            if not n_samples:
                f = make_target_quantiles(target_quantiles, block.n_features) if f is None else f
                writer.orientation = block.orientation
            normal = quantile_normalize(block.values, f, ties=ties, missing=missing, n_jobs=n_jobs)
            writer.write(replace(block, values=normal))
            n_samples += block.n_samples
            n_missing += int(np.isnan(block.values).sum())
    return NormalizedFile(n_samples, len(f), n_missing, f, writer.orientation, 2 if learns else 1)


def _refuse_gaps(block: Table) -> None:
    gaps = np.isnan(block.values)
    if gaps.any():
        i, j = np.argwhere(gaps)[0]
        raise ValueError(
            f"the value of sample {str(block.sample_names[i])!r}, feature {str(block.feature_names[j])!r} is "
            "missing; fill it in, drop the sample or the feature, or use the rule 'ignore' for missing values."
        )


def _with_values(blocks: Iterator[Table]) -> Iterator[np.ndarray]:
    """The samples of every block that have at least one value, of shape (n_usable, n_features)."""
    count = 0
    for block in blocks:
        values = block.values[~np.isnan(block.values).all(axis=1)]
        if len(values):
            yield values
            count += len(values)
    if not count:
        raise ValueError(
            "no sample has any value, so that there is nothing to learn the target from; give a target that "
            "does not look at the samples, such as 'normal'."
        )


def _streamed_mean(blocks: Iterator[np.ndarray], n_jobs: int | None) -> np.ndarray:
    mean, count = np.zeros(()), 0
    for values in blocks:
        part = learn_target(values, "mean", missing="ignore", n_jobs=n_jobs)
        count += len(values)
        mean = mean + (part - mean) * (len(values) / count)
    return mean


def _streamed_median(blocks: Iterator[np.ndarray], n_jobs: int | None, folder: Path) -> np.ndarray:
    """Median over temporary files of sorted samples, a few places at a time."""
    files: list[Path] = []
    n = 0
    with tempfile.TemporaryDirectory(dir=folder) as kept:
        for values in blocks:
            samples = SampleOperator.from_samples(values, missing="ignore", n_jobs=n_jobs)
            files.append(Path(kept) / f"{len(files)}.npy")
            # Transposed, so that some places of all samples of the block are one piece.
            np.save(files[-1], np.ascontiguousarray(sort_samples(values, samples).T))
            n, p = n + len(values), values.shape[1]
        step = max(1, VALUES_AT_ONCE // n)

        def places(start: int) -> np.ndarray:
            sorted_blocks = (np.load(file, mmap_mode="r") for file in files)
            return np.concatenate([block[start : start + step].T for block in sorted_blocks])

        pieces = map(places, range(0, p, step))
        f = np.concatenate([median_rows(piece, np.ones(n), n_jobs) for piece in pieces])
    return finite_target(f, "median")
