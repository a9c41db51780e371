"""Samples of three platforms with the genes that all of them have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..expression.data import data_folder

FILES = {
    "metabric": "brca_metabric100.npz",
    "tcga": "brca_tcga100.npz",
    "scanb": "rnaseq_scanb400.npz",
}


def check(settings: Any, data: Path | None) -> None:
    """Raise a ValueError where a file is missing."""
    for name in FILES.values():
        if not (data_folder(data) / name).is_file():
            raise ValueError(f"{data_folder(data)} has no {name}; give the folder with --data.")


def load_platforms(data: Path | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Samples (logarithms, of the common genes) and subtypes of every platform.

    METABRIC and SCAN-B are stored as logarithms; of TCGA log2(x + 1) is taken, as the scripts of its source do.
    """
    files = {name: np.load(data_folder(data) / file) for name, file in FILES.items()}
    names = {key: file["features"].astype(str) for key, file in files.items()}
    common = sorted(set.intersection(*(set(part.tolist()) for part in names.values())))
    found = {}
    for key, file in files.items():
        place = {name: k for k, name in enumerate(names[key].tolist())}
        X = file["X"][:, [place[name] for name in common]].astype(np.float64)
        X = np.log2(X + 1.0) if key == "tcga" else X / 10.0 if key == "scanb" else X
        subtype = file["pam50"].astype(str)
        found[key] = X[subtype != ""], subtype[subtype != ""]
    return found


def make_labels(subtype: np.ndarray, label: str) -> np.ndarray:
    """One subtype against the rest, or all of them."""
    return subtype if label == "all" else (subtype == label).astype(int)
