"""Cohorts given as folders of CEL files, a clinical table and the chip's layout each.

`--cel`, `--clinical` and `--cdf` of the command come in with the settings; samples with labels go out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suquan.io import LabelTable, read_labels, select_labels, select_numbers, survival_labels
from suquan.microarray import probe_intensities

from .data import DataSet, from_probes

_CEL_FILE = re.compile(r"(.+)\.cel(\.gz)?", re.IGNORECASE)
_SHOWN = 3


@dataclass(frozen=True)
class Cohort:
    """Files of one cohort; its name is that of the folder."""

    cel: Path
    clinical: Path
    cdf: Path

    @property
    def name(self) -> str:
        """Name of the folder with the CEL files."""
        return self.cel.resolve().name


def cohorts(settings: Any) -> dict[str, Cohort]:
    """The cohorts that the settings name, by their names; one layout may serve them all."""
    n = len(settings.cel)
    layouts = settings.cdf * n if len(settings.cdf) == 1 else settings.cdf
    if not n == len(settings.clinical) == len(layouts):
        raise ValueError(
            f"{n} folders of CEL files need as many clinical tables and one CDF file, or as many; got "
            f"{len(settings.clinical)} and {len(settings.cdf)}. Give --cel, --clinical and --cdf in one order."
        )
    files = zip(settings.cel, settings.clinical, layouts, strict=True)
    found = [Cohort(*map(Path, paths)) for paths in files]
    named = {cohort.name: cohort for cohort in found}
    if len(named) < n:
        raise ValueError(
            "two folders of CEL files have the same name; rename one, it names the cohort."
        )
    return named


def labelled_files(cohort: Cohort, settings: Any) -> tuple[list[Path], np.ndarray]:
    """CEL files of the samples with a label, and their labels 0 and 1, without reading the files.

    A file is the sample that it is named after, GSM1.CEL, GSM1.CEL.gz or GSM1_anything.CEL that of GSM1.

    Raises
    ------
    ValueError
        If a file has no clinical row or a row no file, unless the setting `unmatched` is "drop"; if two files
        are one sample; if there is no CEL file; if a class is too small for the folds.
    """
    if settings.unmatched not in ("error", "drop"):
        raise ValueError(f"unmatched must be 'error' or 'drop'; got {settings.unmatched!r}.")
    table = read_labels(cohort.clinical, sample_column=settings.sample_column or None)
    known = set(table.sample_names.tolist())
    files: dict[str, Path] = {}
    for path in sorted(cohort.cel.iterdir()) if cohort.cel.is_dir() else []:
        match = _CEL_FILE.fullmatch(path.name)
        if match is None:
            continue
        name = match.group(1)
        short = re.split(r"[_.]", name)[0]
        name = short if name not in known and short in known else name
        if name in files:
            raise ValueError(
                f"{files[name].name} and {path.name} in {cohort.cel} are both sample {name!r}; keep one."
            )
        files[name] = path
    if not files:
        raise ValueError(f"{cohort.cel} is no folder with CEL files; give one with --cel.")
    if settings.unmatched == "error":
        _refuse(sorted(set(files) - known), f"CEL files in {cohort.cel}", f"row in {table.path}")
        _refuse(sorted(known - set(files)), f"rows of {table.path}", f"CEL file in {cohort.cel}")
    names = [name for name in files if name in known]
    if not names:
        raise ValueError(
            f"no CEL file in {cohort.cel} ({', '.join(list(files)[:_SHOWN])}) is a sample of {table.path} "
            f"({', '.join(sorted(known)[:_SHOWN])}); name the column of sample names with "
            "--set sample_column=NAME."
        )
    keep, y = _labels(table, names, settings)
    _check_classes(y, cohort.name, settings)
    return [files[name] for name, kept in zip(names, keep, strict=True) if kept], y


def _refuse(names: list[str], what: str, lacking: str) -> None:
    if names:
        shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
        raise ValueError(
            f"{len(names)} {what} have no {lacking}: {shown}. Add what is missing, or leave such samples out "
            "with --set unmatched=drop."
        )


def _labels(table: LabelTable, names: list[str], settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which samples have a label, and the labels: by survival where a column of times is named."""
    if settings.time:
        columns = (settings.time, settings.event)
        numbers = [select_numbers(table, column, sample_names=names) for column in columns]
        survival = survival_labels(*numbers, settings.horizon)
        return survival.keep, survival.y
    chosen = select_labels(
        table, settings.label, sample_names=names, positive=str(settings.positive)
    )
    return chosen.keep, chosen.y


def _check_classes(y: np.ndarray, name: str, settings: Any) -> None:
    for label in (0, 1):
        count = int(np.sum(y == label))
        in_training = count - -(-count // settings.outer_folds)
        if count < settings.outer_folds or in_training < settings.inner_folds:
            raise ValueError(
                f"{name} has {count} samples of class {label}, too few for {settings.outer_folds} outer and "
                f"{settings.inner_folds} inner folds; give more samples, or fewer folds with "
                "--set outer_folds=2."
            )


def load_cohort(cohort: Cohort, settings: Any) -> DataSet:
    """Read the CEL files of the samples with a label."""
    paths, y = labelled_files(cohort, settings)
    pm, probeset = probe_intensities(paths, cohort.cdf)
    return from_probes(pm, probeset, y)


def description(cohort: Cohort, settings: Any) -> dict[str, str]:
    """Columns of Table 1 that say what a cohort is."""
    endpoint = f"{settings.label} = {settings.positive}"
    if settings.time:
        endpoint = f"{settings.event} within {settings.horizon:g} of {settings.time}"
    preprocessing = "CEL files, median polish"
    return {"platform": cohort.cdf.stem, "endpoint": endpoint, "preprocessing": preprocessing}
