"""Count the files of the package that a default fit and predict pass through.

A file counts if one of its functions is called, or one of its kernels is compiled. Importing it does not count.
Start this in a fresh process with an empty `NUMBA_CACHE_DIR`: a kernel that is loaded from the cache does not
say which others it calls.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import suquan
from suquan import SuquanClassifier

GOAL = 20
PACKAGE = Path(suquan.__file__).parent


def fit_and_predict() -> None:
    X = np.random.default_rng(0).standard_normal((100, 200))
    y = X[:, :10].sum(axis=1) > 0
    SuquanClassifier().fit(X, y).predict(X)


def files_called(function: Callable[[], None]) -> set[Path]:
    """Files below the package with a Python function that `function` calls."""
    names: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # no module, no class
            names.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {Path(name) for name in names if PACKAGE in Path(name).parents}


def files_compiled() -> set[Path]:
    """Files with a kernel that this process has compiled."""
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("suquan."):
            for value in vars(module).values():
                if getattr(value, "signatures", None) and hasattr(value, "py_func"):
                    found.add(Path(inspect.getfile(value.py_func)))
    return {path for path in found if PACKAGE in path.parents}


def count_files() -> list[str]:
    """Paths inside the package, in order."""
    fit_and_predict()  # imports and compiles
    files = files_called(fit_and_predict) | files_compiled()
    return sorted(path.relative_to(PACKAGE).as_posix() for path in files)


def main() -> None:
    files = count_files()
    print("\n".join(files))
    print(f"{len(files)} files; at most {GOAL} are aimed at")


if __name__ == "__main__":
    main()
