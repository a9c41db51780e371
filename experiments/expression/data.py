"""Data sets of any kind the project can read, as samples and labels."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suquan.io import read_table, select_labels
from suquan.microarray import background_correct, rma

from .geo import SERIES, load_geo

# Table 1 of the paper: patients, relapses.
PAPER_COUNTS = {name: series.paper for name, series in SERIES.items()}
_TABLES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".gct", ".parquet", ".h5ad")


@dataclass(frozen=True)
class DataSet:
    """Labelled samples, with their probes where raw ones were given.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : int ndarray of shape (n_samples,)
        0 and 1.
    probes : float64 ndarray of shape (n_samples, n_probes) or None
        Intensities of the probes without their background.
    probeset : ndarray of shape (n_probes,) or None
        Name of each probe's set.
    """

    X: np.ndarray
    y: np.ndarray
    probes: np.ndarray | None = None
    probeset: np.ndarray | None = None


def from_probes(pm: np.ndarray, probeset: np.ndarray, y: np.ndarray) -> DataSet:
    """Raw probes of shape (n_probes, n_samples), summarised by median polish alone as the paper's raw data."""
    raw = rma(pm, probeset, background=False, target_quantiles=None)
    return DataSet(np.asarray(raw).T, y, np.asarray(background_correct(pm)).T, probeset)


def data_folder(data: Path | None) -> Path:
    """The given folder, or the one that SUQUAN_DATA names, or ``shared/data`` beside the clone."""
    if data is not None:
        return data
    named = os.environ.get("SUQUAN_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "data"
    if not folder.is_dir():
        raise ValueError("no data: give their folder with --data, or name it in SUQUAN_DATA.")
    return folder


def load_dataset(name: str, data: Path | None, label: str) -> DataSet:
    """The data set of that name."""
    folder = data_folder(data)
    if name in PAPER_COUNTS:
        cohort = load_geo(name, folder)
        return DataSet(cohort.data, cohort.target)
    if (folder / f"{name}.npz").is_file():
        return _from_npz(folder / f"{name}.npz")
    for ending in _TABLES:
        path = folder / f"{name}{ending}"
        if path.is_file():
            table = read_table(path, label_columns=[label])
            chosen = select_labels(table, label)
            return DataSet(table.values[chosen.keep], np.asarray(chosen.y))
    raise ValueError(f"{folder} has no data set {name!r}: no {name}.npz and no table of that name.")


def _from_npz(path: Path) -> DataSet:
    """`X` and `y`, or raw probes; samples with y < 0 and features with filled values are left out."""
    with np.load(path) as file:
        arrays = {
            key: file[key] for key in file.files if key in ("X", "y", "pm", "probeset", "n_missing")
        }
    if "y" not in arrays or not ("X" in arrays or "pm" in arrays):
        raise ValueError(
            f"{path} must hold `y`, and `X` or `pm` with `probeset`; it holds {sorted(arrays)}."
        )
    known = arrays["y"] >= 0
    y = arrays["y"][known].astype(int)
    if "pm" in arrays:
        return from_probes(arrays["pm"][:, known], arrays["probeset"], y)
    X = arrays["X"][known]
    if "n_missing" in arrays:
        X = X[:, arrays["n_missing"] == 0]
    return DataSet(np.ascontiguousarray(X), y)
