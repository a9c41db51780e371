"""``suquan normalize``: a table in, a table of the same shape out, both in files."""

import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suquan._dask.collections import compute
from suquan.cli._cluster import running_cluster
from suquan.cli._inputs import find_samples, is_array_file, open_samples, say_samples
from suquan.cli._options import Normalize
from suquan.cli._output import Output
from suquan.io import TableError, write_blocks
from suquan.io.blocks import check_block_destination
from suquan.persistence import load_model
from suquan.preprocessing import QuantileNormalizer
from suquan.streaming import NormalizedFile, normalize_file
from suquan.targets import LEARNED, NAMED, make_target_quantiles

CLEAR_LINE = "\r\x1b[2K"


def run(options: Normalize, output: Output) -> None:
    """Normalise a table block by block, on a cluster where one is asked for."""
    source, destination = options.table, options.output
    target = resolve_target_option(options.target)
    samples, why = find_samples(source, options, label_columns=tuple(options.label or ()))
    if options.has_cluster or is_array_file(source) or is_array_file(destination):
        done = _normalize_blocks(options, target, samples)
    else:
        done = _normalize_here(options, target, samples, output)
    if not isinstance(target, str) and len(target) != done.n_features:
        output.say(
            f"the target of {len(target):,} values was interpolated to the {done.n_features:,} features"
        )
    gaps = f"; {done.n_missing:,} missing values stayed missing" if done.n_missing else ""
    say_samples(output, source, done, done.orientation, why, gaps)
    output.say(f"normalised to {options.target}, ties by the rule {options.ties!r}: {destination}")
    counts = ("n_samples", "n_features", "n_missing", "n_passes")
    output.keep(output=str(destination), target=options.target, ties=options.ties)
    output.keep(**{name: getattr(done, name) for name in counts})


def _normalize_here(
    options: Normalize, target: Any, samples: str, output: Output
) -> NormalizedFile:
    """In this process, from one file into the other; on a terminal, counts on one line that is cleared."""

    def show(text: str) -> None:
        print(CLEAR_LINE + text, end="", file=sys.stderr, flush=True)

    shown = not output.quiet and sys.stderr.isatty()
    try:
        return normalize_file(
            options.table,
            options.output,
            target,
            ties=options.ties,
            missing=options.missing,
            label_columns=options.label or (),
            rows_per_block=options.block_samples,
            samples=samples,
            n_jobs=options.n_jobs,
            progress=(lambda what, n: show(f"{what}: {n:,} samples")) if shown else None,
            **options.reading(),
        )
    finally:
        if shown:
            show("")


def _normalize_blocks(options: Normalize, target: Any, samples: str) -> NormalizedFile:
    """The same on Dask arrays: the blocks are read, normalised and, as arrays, written by the workers."""
    check_block_destination(options.output)
    wanted: dict[str, Any] = {"samples": samples, "rows_per_block": options.block_samples}
    table = open_samples(options.table, options, options.label or (), **wanted)
    learns = isinstance(target, str) and target in LEARNED
    if not learns:
        target = make_target_quantiles(target, table.n_features)
    normalizer = QuantileNormalizer(target, ties=options.ties, missing=options.missing)
    with running_cluster(options):
        n_missing = 0
        if options.missing == "ignore":
            (n_missing,) = compute(np.isnan(table.values).sum(), blocks_of=table.values)
        normalised = normalizer.fit_transform(table.values)
        write_blocks(replace(table, values=normalised), options.output)
    n_passes = (2 if learns else 1) + (options.missing == "ignore")
    f = normalizer.target_quantiles_
    return NormalizedFile(table.n_samples, len(f), int(n_missing), f, "rows", n_passes)


def resolve_target_option(target: str) -> Any:
    """A name, or the values in a file: a saved model, an npy array, or text with one number per line."""
    if target in (*LEARNED, *NAMED):
        return target
    path, names = Path(target), ", ".join((*LEARNED, *NAMED))
    if not path.exists():
        raise TableError(
            f"--target {target!r} is neither one of {names} nor a file; check the spelling"
        )
    if path.suffix == ".suquan":
        targets = np.atleast_2d(load_model(path).target_quantiles_)
        if len(targets) > 1:
            problem = f"the model has {len(targets)} targets, and a table is normalised to one"
            raise TableError(
                f"{path}: {problem}; use its transform in Python, which gives a copy for each"
            )
        return targets[0]
    read = np.load if path.suffix == ".npy" else partial(np.loadtxt, ndmin=1)
    try:
        values: Any = read(path)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise TableError(
            f"{path}: wanted a saved model (.suquan), an array (.npy) or text with one number per line; {error}"
        ) from error
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.size == 0:
        shape = getattr(values, "shape", None)
        raise TableError(f"{path}: wanted one number per line; got shape {shape}")
    return values
