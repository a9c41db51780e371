"""Files and folders that are there whole or not at all."""

import csv
import io
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new name beside `path` for a file or a folder, which takes its place at the end.

    Where the work fails, the new one is removed, and one that was there stays.

    Parameters
    ----------
    path : Path

    Yields
    ------
    Path
        Absolute; nothing is there yet.
    """
    new = path.absolute().parent / f".writing-{secrets.token_hex(8)}"
    old = new.with_suffix(".old")
    try:
        yield new
        if new.is_dir() and path.is_dir():
            os.replace(path, old)
        os.replace(new, path)
        shutil.rmtree(old, ignore_errors=True)
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
    """Write a file under a temporary name beside `path`, and move it into place when it is whole.

    Parameters
    ----------
    path : path
    write : callable
        Gets the open binary file.

    Returns
    -------
    Path
    """
    path = Path(path)
    with replaced(path) as new, new.open("x+b") as file:
        write(file)
    return path


def write_csv(path: Path, table: dict[str, Any]) -> Path:
    """Write columns, arrays of one length by their names, as a table in one move."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    replace_file(path, lambda file: file.write(text.getvalue().encode()))
    return path
