"""``suquan normalize``: a table in, a table of the same shape out, both in files."""

import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suquan.cli._inputs import find_samples, say_samples
from suquan.cli._options import Normalize
from suquan.cli._output import Output
from suquan.io import TableError
from suquan.persistence import load_model
from suquan.streaming import normalize_file
from suquan.targets import LEARNED, NAMED


def run(options: Normalize, output: Output) -> None:
    """Normalise a table block by block; a terminal shows how far it is."""
    path, labels = options.table, tuple(options.label or ())
    target = resolve_target_option(options.target)
    samples, why = find_samples(path, options, label_columns=labels)
    with output.status("reading") as show:
        done = normalize_file(
            path,
            options.output,
            target,
            ties=options.ties,
            missing=options.missing,
            label_columns=labels,
            rows_per_block=options.block_samples,
            samples=samples,
            n_jobs=options.n_jobs,
            progress=lambda what, n: show(f"{what}: {n:,} samples"),
            **options.reading(),
        )
    if not isinstance(target, str) and len(target) != done.n_features:
        output.say(
            f"the target of {len(target):,} values was interpolated to the {done.n_features:,} features"
        )
    gaps = f"; {done.n_missing:,} missing values stayed missing" if done.n_missing else ""
    say_samples(output, path, done, done.orientation, why, gaps)
    output.say(
        f"normalised to {options.target}, ties by the rule {options.ties!r}: {options.output}"
    )
    counts = ("n_samples", "n_features", "n_missing", "n_passes")
    output.keep(output=str(options.output), target=options.target, ties=options.ties)
    output.keep(**{name: getattr(done, name) for name in counts})


def resolve_target_option(target: str) -> Any:
    """Give a name, or the values in a file: a saved model, an npy array, or text with one number per line."""
    known = (*LEARNED, *NAMED)
    if target in known:
        return target
    path = Path(target)
    if not path.exists():
        what = f"neither one of {', '.join(known)} nor a file"
        raise TableError(f"--target {target!r} is {what}; check the spelling")
    if path.suffix == ".suquan":
        targets = np.atleast_2d(load_model(path).target_quantiles_)
        if len(targets) > 1:
            raise TableError(
                f"{path}: the model has {len(targets)} targets, and a table is normalised to one; use its "
                "transform in Python, which gives a copy for each"
            )
        return targets[0]
    read: Any = np.load if path.suffix == ".npy" else partial(np.loadtxt, ndmin=1)
    try:
        values = read(path)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise TableError(
            f"{path}: wanted a saved model (.suquan), an array (.npy) or text with one number per line; {error}"
        ) from error
    if np.ndim(values) != 1 or not np.size(values):
        raise TableError(f"{path}: wanted one number per line; got shape {np.shape(values)}")
    return values
