"""CIFAR-10 in grey: the path of a copy comes in, arrays of pictures and of their classes go out."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from suquan._validation import check_choice
from suquan.datasets._plain_pickle import load_plain_pickle

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_NPZ = "cifar10_gray.npz"
_TRAIN_BATCHES = tuple(f"data_batch_{k}" for k in range(1, 6))
_TEST_BATCH = "test_batch"
_SUBFOLDERS = ("", "cifar-10-batches-py", "cifar-10-batches-bin")
_N_PIXELS = 32 * 32
_OPENML_ID = 40927
_SUBSETS = ("train", "test", "all")


_ARRAYS = ("X_train", "y_train", "X_test", "y_test")
# Grey training pictures in rows and their classes, in the official order; the same of the test pictures.
_Images = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load_cifar10(
    path: Any = None, *, subset: str = "train", return_X_y: bool = False
) -> Bunch | tuple[np.ndarray, np.ndarray]:
    """CIFAR-10 in grey: 32 × 32 pixels of 60,000 pictures in ten classes.

    Colours become grey as in PIL's ``convert("L")``: (19595 R + 38470 G + 7471 B + 32768) >> 16.

    Parameters
    ----------
    path : str or path-like, default=None
        - ``cifar10_gray.npz``, with the arrays `X_train`, `y_train`, `X_test` and `y_test`;
        - a folder with that file, or with the original batches, python or binary version, in it or in its
          subfolder ``cifar-10-batches-py`` or ``cifar-10-batches-bin``;
        - None: the folder that the environment variable SUQUAN_DATA names, or, without it, ``shared/data``
          beside the checkout that the package runs from. If nothing is there, OpenML is asked for
          its copy (data set 40927, kept by scikit-learn in its data folder).
    subset : {"train", "test", "all"}, default="train"
        The 50,000 training pictures, the 10,000 test pictures, or the one followed by the other.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    Bunch
        `data`: ndarray of shape (n_samples, 1024), uint8, rows of 32 pixels; `target`: ndarray of
        shape (n_samples,), 0 to 9; `target_names`: names of the classes.

    Raises
    ------
    FileNotFoundError
        If there is no copy in `path`, or with ``path=None`` none anywhere.
    ValueError
        If a file is damaged.

    Notes
    -----
    The python batches are pickles. Nothing in them is executed: numbers, text, lists, dictionaries and arrays
    of bytes are read, all else is refused.

    Examples
    --------
    >>> from suquan.datasets import load_cifar10
    >>> pictures = load_cifar10("cifar-10-batches-py")  # doctest: +SKIP
    >>> pictures.data.shape, pictures.target_names[7]  # doctest: +SKIP
    ((50000, 1024), 'horse')
    """
    check_choice("subset", subset, _SUBSETS)
    X, y, X_test, y_test = _find(path)
    if subset == "test":
        X, y = X_test, y_test
    elif subset == "all":
        X, y = np.concatenate([X, X_test]), np.concatenate([y, y_test])
    if return_X_y:
        return X, y
    return Bunch(data=X, target=y, target_names=np.array(CLASSES))


def _find(path: Any) -> _Images:
    """Images from the first copy that is found; without a path, from the default folder or OpenML."""
    beside = Path(__file__).resolve().parents[4] / "shared" / "data"
    usual = os.environ.get("SUQUAN_DATA") or (beside if beside.is_dir() else None)
    named = usual if path is None else path
    images = None if named is None else _read(Path(named))
    if images is None and path is not None:
        raise FileNotFoundError(
            f"there is no CIFAR-10 in {path}: wanted {_NPZ}, or the original batches "
            f"({_TRAIN_BATCHES[0]} … {_TEST_BATCH}, python or binary version, unpacked)."
        )
    return _fetch(named) if images is None else images


def _read(place: Path) -> _Images | None:
    """Images from a file or a folder; None if there are none."""
    for file in (place, place / _NPZ):
        if file.is_file():
            return _read_npz(file)
    for name in _SUBFOLDERS:
        for ending, read in (("", _read_python_batch), (".bin", _read_binary_batch)):
            if (place / name / (_TEST_BATCH + ending)).is_file():
                return _read_batches(place / name, ending, read)
    return None


def _read_npz(path: Path) -> _Images:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            X, y, X_test, y_test = (file[name] for name in _ARRAYS)
    except Exception as error:  # what a damaged archive trips over has no common type
        raise ValueError(
            f"{path} is damaged, or is not the grey CIFAR-10 with {', '.join(_ARRAYS)}: {error}"
        ) from error
    return X, _check(X, y, _N_PIXELS, path), X_test, _check(X_test, y_test, _N_PIXELS, path)


def _read_batches(folder: Path, ending: str, read: Any) -> _Images:
    """Batches of the original data set; all six must be there."""
    paths = [folder / (name + ending) for name in (*_TRAIN_BATCHES, _TEST_BATCH)]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"{folder} has some batches of CIFAR-10 but lacks {', '.join(missing)}; unpack the archive again."
        )
    grey, labels = [], []
    for path in paths:
        colours, y = read(path)
        labels.append(_check(colours, y, 3 * _N_PIXELS, path))
        grey.append(_to_grey(colours))
    return np.concatenate(grey[:-1]), np.concatenate(labels[:-1]), grey[-1], labels[-1]


def _read_python_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    batch = load_plain_pickle(path)
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        raise ValueError(f"{path} is not a batch of CIFAR-10: it has no 'data' and 'labels'.")
    X, labels = batch[b"data"], batch[b"labels"]
    is_flat = isinstance(labels, list) and all(type(label) is int for label in labels)
    if not isinstance(X, np.ndarray) or not is_flat or any(abs(y) >> 62 for y in labels):
        raise ValueError(
            f"{path} is damaged: wanted an array 'data' and a list of integers 'labels'."
        )
    return X, np.array(labels, dtype=np.int64)


def _read_binary_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = np.fromfile(path, np.uint8)
    width = 1 + 3 * _N_PIXELS
    if data.size == 0 or data.size % width:
        raise ValueError(
            f"{path} is damaged: it has {data.size:,} bytes, not a multiple of {width:,}, the label and "
            "the colours of a picture."
        )
    rows = data.reshape(-1, width)
    return rows[:, 1:], rows[:, 0]


def _check(X: np.ndarray, y: np.ndarray, width: int, place: Any) -> np.ndarray:
    """Classes as int64, or a ValueError unless `X` holds pictures of `width` bytes and `y` their classes."""
    if X.dtype != np.uint8 or X.ndim != 2 or X.shape[1] != width:
        raise ValueError(
            f"{place}: wanted pictures of {width:,} bytes in rows; got an array of shape {X.shape} and type "
            f"{X.dtype}."
        )
    fits = y.shape == (len(X),) and len(y) > 0 and y.dtype.kind in "iu"
    if not fits or y.min() < 0 or y.max() >= len(CLASSES):
        raise ValueError(
            f"{place}: wanted a class from 0 to 9 for each of {len(X):,} pictures; got an array of shape "
            f"{y.shape} and type {y.dtype}."
        )
    return y.astype(np.int64)


def _to_grey(colours: np.ndarray) -> np.ndarray:
    """Grey pixels from red, green and blue ones, which follow each other in a row."""
    shares = zip((19595, 38470, 7471), np.split(colours, 3, axis=1), strict=True)
    grey: Any = sum((share * part.astype(np.uint32) for share, part in shares), np.uint32(32768))
    return (grey >> 16).astype(np.uint8)


def _fetch(folder: Any) -> _Images:
    """Images from OpenML, which has one table: the first 50,000 rows are taken as the training pictures."""
    from sklearn.datasets import fetch_openml

    try:
        table = fetch_openml(data_id=_OPENML_ID, as_frame=False, parser="auto")
    except OSError as error:
        looked = f"nothing in {folder}" if folder is not None else "SUQUAN_DATA is not set"
        raise FileNotFoundError(
            f"no CIFAR-10 at hand: {looked}, and OpenML cannot be reached ({error}). Put {_NPZ} or the "
            "unpacked batches from https://www.cs.toronto.edu/~kriz/cifar.html in a folder, and give it as "
            "path or in SUQUAN_DATA."
        ) from error
    X = np.asarray(table.data).astype(np.uint8)
    y = _check(X, np.asarray(table.target).astype(np.int64), 3 * _N_PIXELS, "OpenML's CIFAR-10")
    n_train = len(X) * 5 // 6
    counts = np.bincount(y[:n_train], minlength=len(CLASSES))
    if np.any(counts * len(CLASSES) != n_train):
        raise ValueError(
            "OpenML's CIFAR-10 is not in the official order (the classes of its first five sixths are not "
            "equally many); use the original batches."
        )
    grey = _to_grey(X)
    return grey[:n_train], y[:n_train], grey[n_train:], y[n_train:]
