"""Read CIFAR-10 in grey: the path of a copy comes in, images and their classes go out.

The experiments on images call it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..expression.data import data_folder

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
NPZ = "cifar10_gray.npz"
BATCHES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
_SUBFOLDERS = ("", "cifar-10-batches-bin")
_N_PIXELS = 32 * 32


def load_cifar10(path: Any = None, *, subset: str = "all") -> tuple[np.ndarray, np.ndarray]:
    """Read CIFAR-10 in grey: 32 × 32 pixels of 60,000 images in ten classes.

    Colours become grey as in PIL's ``convert("L")``: (19595 R + 38470 G + 7471 B + 32768) >> 16. The
    original's python version is not read: its batches are pickles, which may run anything.

    Parameters
    ----------
    path : str or path-like, default=None
        ``cifar10_gray.npz`` with `X_train`, `y_train`, `X_test` and `y_test`; or a folder with that file, or
        with the original batches, binary version, in it or in its subfolder ``cifar-10-batches-bin``. None: the
        folder that the environment variable SUQUAN_DATA names.
    subset : {"train", "all"}, default="all"
        The 50,000 training images, or these followed by the 10,000 test images.

    Returns
    -------
    X : uint8 ndarray of shape (n_samples, 1024)
    y : int64 ndarray of shape (n_samples,), 0 to 9
    """
    place = Path(path) if path is not None else data_folder(None)
    parts = _read(place)
    if parts is None:
        raise FileNotFoundError(
            f"there is no CIFAR-10 in {place}: wanted {NPZ}, or the unpacked batches "
            f"({BATCHES[0]} … {BATCHES[-1]}, the binary version) of "
            "https://www.cs.toronto.edu/~kriz/cifar.html."
        )
    parts = parts[:1] if subset == "train" else parts
    X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return X, y


def _read(place: Path) -> list | None:
    """Read training and test images with their classes from a file or a folder; None if there are none."""
    for file in (place, place / NPZ):
        if file.is_file():
            return _read_npz(file)
    for name in _SUBFOLDERS:
        if (place / name / BATCHES[-1]).is_file():
            return _read_batches(place / name)
    return None


def _read_npz(path: Path) -> list:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            parts = [(file[f"X_{part}"], file[f"y_{part}"]) for part in ("train", "test")]
    except Exception as error:  # what a damaged archive trips over has no common type
        raise ValueError(f"{path} is damaged, or is not the grey CIFAR-10: {error}") from error
    return [(X, _check(X, y, _N_PIXELS, path)) for X, y in parts]


def _read_batches(folder: Path) -> list:
    """Read the batches of the original data set; all six must be there."""
    paths = [folder / name for name in BATCHES]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} has some batches of CIFAR-10 but lacks {', '.join(missing)}; unpack the archive again."
        )
    batches = []
    for path in paths:
        colours, y = _read_batch(path)
        y = _check(colours, y, 3 * _N_PIXELS, path)
        batches.append((to_grey(colours), y))
    training = (np.concatenate(arrays) for arrays in zip(*batches[:-1], strict=True))
    return [tuple(training), batches[-1]]


def _read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data, width = np.fromfile(path, np.uint8), 1 + 3 * _N_PIXELS
    if data.size == 0 or data.size % width:
        raise ValueError(
            f"{path} is damaged: its {data.size:,} bytes are not a multiple of {width:,}, the label and the "
            "colours of an image."
        )
    rows = data.reshape(-1, width)
    return rows[:, 1:], rows[:, 0]


def _check(X: np.ndarray, y: np.ndarray, width: int, place: Path) -> np.ndarray:
    """Return the classes as int64; refuse anything but images of `width` bytes and one class for each."""
    if X.dtype != np.uint8 or X.ndim != 2 or X.shape[1] != width:
        raise ValueError(
            f"{place}: wanted images of {width:,} bytes in rows; got an array of shape {X.shape} and type "
            f"{X.dtype}."
        )
    fits = y.shape == (len(X),) and len(y) > 0 and y.dtype.kind in "iu"
    if not fits or y.min() < 0 or y.max() >= len(CLASSES):
        raise ValueError(
            f"{place}: wanted a class from 0 to 9 for each of {len(X):,} images; got an array of shape "
            f"{y.shape} and type {y.dtype}."
        )
    return y.astype(np.int64)


def to_grey(colours: np.ndarray) -> np.ndarray:
    """Turn red, green and blue pixels, which follow each other in a row, into grey ones."""
    shares = zip((19595, 38470, 7471), np.split(colours, 3, axis=1), strict=True)
    grey: Any = sum((share * part.astype(np.uint32) for share, part in shares), np.uint32(32768))
    return (grey >> 16).astype(np.uint8)
