"""Checkpoints of fits on Dask: a journal of the passes over the data.

Everything between two passes is deterministic and cheap, so the sums that the passes gave are all there is
to keep. A fit that is resumed runs the same steps; where the journal has the sums that a step asks for, no
pass is made.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import IO, Any

import joblib
import numpy as np
from sklearn.utils import check_random_state

from suquan.files.disk import read_part, replace_file

_HEADER, _SEED = "fit.json", "seed.txt"
_directory: ContextVar[Path | None] = ContextVar("suquan_checkpoint", default=None)


@contextmanager
def checkpoint_fit(directory: Any) -> Iterator[Path]:
    """Keep what a fit on a Dask array has computed, so that it can be stopped and resumed.

    Inside the context, the fit writes the sums of every pass over the data to `directory`. When it is run again
    with the same data and parameters, it makes only the passes that are not there yet, and gives the result
    that it would have given without a break. Fits on arrays in memory are not concerned.

    Parameters
    ----------
    directory : path
        Made where it does not exist. It holds one fit; remove it when the fit is done.

    Yields
    ------
    Path
        The directory.

    Raises
    ------
    ValueError
        By the fit, if `directory` holds a checkpoint of other data or parameters.

    Examples
    --------
    >>> import tempfile
    >>> import dask.array as da
    >>> import numpy as np
    >>> from suquan import SuquanClassifier, checkpoint_fit
    >>> rng = np.random.default_rng(0)
    >>> X = da.from_array(rng.standard_normal((60, 10)), chunks=(20, 10))
    >>> y = np.tile([0, 1], 30)
    >>> with tempfile.TemporaryDirectory() as directory, checkpoint_fit(directory):
    ...     first = SuquanClassifier("bnd").fit(X, y)
    ...     again = SuquanClassifier("bnd").fit(X, y)  # reads the data, computes nothing anew
    >>> bool(np.all(first.coef_ == again.coef_))
    True
    """
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    token = _directory.set(path)
    try:
        yield path
    finally:
        _directory.reset(token)


def checkpoint_directory() -> Path | None:
    """Where the fit that begins now keeps its checkpoint; None outside of :func:`checkpoint_fit`."""
    return _directory.get()


def repeatable_seed(random_state: Any) -> Any:
    """Random state with which the folds of a fit can be drawn again when it is resumed.

    Inside of :func:`checkpoint_fit` a seed is drawn and kept in the directory, unless an integer was given.

    Parameters
    ----------
    random_state : int, RandomState instance or None

    Returns
    -------
    int, RandomState instance or None
    """
    directory = checkpoint_directory()
    if directory is None or isinstance(random_state, Integral):
        return random_state
    path = directory / _SEED
    seed = read_part(path, lambda file: int(file.read()))
    if seed is None:
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        replace_file(path, lambda file: file.write(f"{seed}\n".encode()))
    return seed


def fingerprint(*parts: Any) -> str:
    """Hash of parameters and arrays."""
    return joblib.hash(parts, hash_name="sha1")


class Journal:
    """Results of the passes of one fit, one file each.

    Parameters
    ----------
    directory : Path
    identity : dict of str
        What the fit is of: hashes of its data and parameters.
    """

    def __init__(self, directory: Path, identity: dict[str, str]) -> None:
        self.directory, self.count = directory, 0
        header = directory / _HEADER
        if header.exists():
            _check_identity(header, identity)
        else:
            text = json.dumps(identity, indent=1).encode()
            replace_file(header, lambda file: file.write(text))

    def recall(self, name: str, arguments: tuple, compute: Callable[[], Any]) -> Any:
        """Result of the next pass: from its file where that answers the same question, else computed."""
        path = self.directory / f"pass-{self.count:06d}.npz"
        self.count += 1
        question = fingerprint(name, *arguments)
        known = read_part(path, partial(_read, question=question))
        if known is not None:
            return known
        result = compute()
        _write(path, question, result)
        return result


def _check_identity(header: Path, identity: dict[str, str]) -> None:
    try:
        known = json.loads(header.read_text())
    except ValueError:
        known = None
    if not isinstance(known, dict) or known.keys() != identity.keys():
        raise ValueError(f"{header} is not the checkpoint of a fit; give another directory.")
    other = [name for name, value in identity.items() if known[name] != value]
    if other:
        raise ValueError(
            f"the checkpoint in {header.parent} was made with other {' and '.join(other)}. Give the same, "
            "or another directory for this fit."
        )


def _write(path: Path, question: str, result: list[np.ndarray]) -> None:
    """The arrays of a pass, and what they answer."""
    named: Any = {f"a{k}": array for k, array in enumerate(result)}
    replace_file(path, lambda file: np.savez(file, question=np.array(question), **named))


def _read(file: IO[bytes], question: str) -> list[np.ndarray] | None:
    """Read the result of a pass; None where it answers another question."""
    with np.load(file, allow_pickle=False) as stored:
        if str(stored["question"]) != question:
            return None
        return [stored[f"a{k}"] for k in range(len(stored.files) - 1)]
