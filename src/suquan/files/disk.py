"""Files and folders that are there whole or not at all."""

import errno
import os
import secrets
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

Part = TypeVar("Part")
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def refuse_device(path: Path) -> None:
    """Refuse a device or a pipe: it cannot be read twice, and must not be replaced by a file."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is a device or a pipe; give the name of a file.")


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a new absolute name beside `path` for a file or a folder, and move that into place at the end.

    If the work fails, the new one is removed, and an old one stays. A file that is replaced hands on its mode;
    if `path` is a link, the file that it leads to is replaced.
    """
    refuse_device(path)
    named, path = path, Path(os.path.realpath(path))
    new = path.parent / f".writing-{secrets.token_hex(8)}"
    old = new.with_suffix(".old")
    try:
        yield new
        for part in filter(Path.is_file, [new, *new.rglob("*")]):
            with part.open("r+b") as file:
                os.fsync(file.fileno())  # else a power failure may leave an empty file
        if path.exists():
            new.chmod(stat.S_IMODE(path.stat().st_mode))
        if new.is_dir() and path.is_dir():
            os.replace(path, old)
        os.replace(new, path)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        if error.errno in DISK_FULL or str(error.filename).startswith(str(new)):
            error.filename = str(named)  # the user does not know the temporary name
        raise
    finally:
        if old.exists() and not path.exists():
            os.replace(old, path)
        for _ in range(100):  # workers may still be writing into a folder
            shutil.rmtree(new, ignore_errors=True)
            if not new.is_dir():
                break
            time.sleep(0.05)
        new.unlink(missing_ok=True)


def replace_file(path: Any, write: Callable[[IO[bytes]], Any]) -> Path:
    """Let `write` fill an open binary file with a temporary name, and move it to `path` when it is whole."""
    path = Path(path)
    with replaced(path) as new, new.open("x+b") as file:
        write(file)
    return path


def read_part(path: Path, read: Callable[[IO[bytes]], Part]) -> Part | None:
    """Read a part of a checkpoint; None where it is absent, or damaged, which a warning says."""
    try:
        with path.open("rb") as file:
            return read(file)
    except FileNotFoundError:
        return None
    except Exception as error:  # what a damaged file trips over has no common type
        problem = f"{path} cannot be read ({type(error).__name__}: {error})"
        warnings.warn(f"{problem}; this part is computed anew.", stacklevel=2)
        return None
