"""``suquan normalize``."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suquan._dask.collections import compute, map_row_blocks
from suquan.cli._block_inputs import is_array_file, open_samples
from suquan.cli._cluster import NO_CLUSTER, ClusterChoice, running_cluster
from suquan.cli._output import Output
from suquan.io import TableError, write_blocks
from suquan.io.blocks import check_block_destination
from suquan.persistence import load_model
from suquan.preprocessing import QuantileNormalizer
from suquan.streaming import NormalizedFile, normalize_file
from suquan.targets import LEARNED, NAMED, make_target_quantiles


def run_normalize(
    source: Path,
    destination: Path,
    output: Output,
    *,
    target: str,
    ties: str,
    missing: str,
    samples: str,
    layer: str | None,
    labels: Sequence[str],
    ignore: Sequence[str],
    block_samples: int | None,
    n_jobs: int,
    cluster: ClusterChoice = NO_CLUSTER,
) -> None:
    """Normalise a table block by block, on a cluster where one is asked for."""
    values = resolve_target_option(target)
    options: dict[str, Any] = {
        "ties": ties,
        "missing": missing,
        "samples": samples,
        "layer": layer,
        "label_columns": labels,
        "ignore_columns": ignore,
        "rows_per_block": block_samples,
    }
    if cluster or is_array_file(source) or is_array_file(destination):
        done = _normalize_blocks(source, destination, values, cluster, **options)
    else:
        with _progress(output) as show:
            done = normalize_file(
                source, destination, values, n_jobs=n_jobs, progress=show, **options
            )
    if not isinstance(values, str) and len(values) != done.n_features:
        output.say(
            f"the target of {len(values):,} values was interpolated to the {done.n_features:,} features"
        )
    gaps = f"; {done.n_missing:,} missing values stayed missing" if done.n_missing else ""
    how = "as given" if samples != "auto" else "chosen by the kind of the file; --samples overrides"
    output.say(
        f"{source.name}: {done.n_samples:,} samples in {done.orientation} ({how}), "
        f"{done.n_features:,} features{gaps}"
    )
    if samples == "auto" and done.orientation == "rows" and done.n_samples > 5 * done.n_features:
        output.warn(
            f"{done.n_samples:,} rows were taken for samples, {done.n_features:,} columns for features; if it "
            "is the other way round, run again with --samples columns"
        )
    output.say(f"normalised to {target}, ties by the rule {ties!r}: {destination}")
    output.keep(
        output=str(destination),
        n_samples=done.n_samples,
        n_features=done.n_features,
        n_missing=done.n_missing,
        orientation=done.orientation,
        target=target,
        ties=ties,
        n_passes=done.n_passes,
    )


def _normalize_blocks(
    source: Path,
    destination: Path,
    target: Any,
    cluster: ClusterChoice,
    *,
    ties: str,
    missing: str,
    samples: str,
    layer: str | None,
    label_columns: Sequence[str],
    ignore_columns: Sequence[str],
    rows_per_block: int | None,
) -> NormalizedFile:
    """The same on Dask arrays: the blocks are read, normalised and, as arrays, written by the workers."""
    check_block_destination(destination)
    table = open_samples(
        source,
        samples=samples,
        layer=layer,
        labels=label_columns,
        ignore=ignore_columns,
        rows_per_block=rows_per_block,
    )
    learns = isinstance(target, str) and target in LEARNED
    if not learns:
        target = make_target_quantiles(target, table.n_features)
    normalizer = QuantileNormalizer(target, ties=ties, missing=missing)
    with running_cluster(cluster):
        n_missing = 0
        if missing == "ignore":
            (n_missing,) = compute(_count_gaps(table.values), blocks_of=table.values)
        normalised = normalizer.fit_transform(table.values)
        write_blocks(replace(table, values=normalised), destination)
    n_passes = (2 if learns else 1) + (missing == "ignore")
    f = normalizer.target_quantiles_
    return NormalizedFile(table.n_samples, len(f), int(n_missing), f, "rows", n_passes)


def _count_gaps(X: Any) -> Any:
    counts = map_row_blocks(_gaps, X, dtype=np.int64, width=1, rows_out=(1,) * X.numblocks[0])
    return counts.sum()


def _gaps(block: np.ndarray, where: Any) -> np.ndarray:
    return np.array([[np.isnan(block).sum()]])


def resolve_target_option(target: str) -> Any:
    """A name, or the values in a file: a saved model, an npy array, or text with one number per line."""
    if target in (*LEARNED, *NAMED):
        return target
    path = Path(target)
    if not path.exists():
        names = ", ".join((*LEARNED, *NAMED))
        raise TableError(
            f"--target {target!r} is neither one of {names} nor a file; check the spelling"
        )
    if path.suffix == ".suquan":
        return load_model(path).target_quantiles_
    try:
        if path.suffix == ".npy":
            values = np.load(path, allow_pickle=False)
        else:
            values = np.loadtxt(path, dtype=np.float64, ndmin=1)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise TableError(
            f"{path}: wanted a saved model (.suquan), an array (.npy) or text with one number per line; {error}"
        ) from error
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.size == 0:
        raise TableError(
            f"{path}: wanted one number per line; got shape {getattr(values, 'shape', None)}"
        )
    return values


@contextmanager
def _progress(output: Output) -> Iterator[Callable[[str, int], None] | None]:
    """Counts on one line of a terminal, which is cleared in the end."""
    if not (output.shows_progress and sys.stderr.isatty()):
        yield None
        return

    def show(what: str, count: int) -> None:
        sys.stderr.write(f"\r\x1b[2K{what}: {count:,} samples")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
