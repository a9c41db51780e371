"""Files that are there whole or not at all."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


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
    temporary = path.parent / f".writing-{secrets.token_hex(8)}"
    # Not tempfile's: it would leave the file readable by its owner alone.
    handle = os.open(
        temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
    )
    try:
        with os.fdopen(handle, "w+b") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
