"""The one exception of the readers and writers, and the translation of other libraries' exceptions into it."""

import gzip
import importlib
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile)
PROBLEMS: dict[type[Exception], str] = {
    FileNotFoundError: "there is no such file; check the path",
    IsADirectoryError: "this is a directory; give a file",
    NotADirectoryError: "a part of the path is not a directory; check it",
    PermissionError: "no permission; check who owns the file",
    MemoryError: "the table does not fit in memory; read it in blocks",
}


class TableError(ValueError):
    """A file cannot be read or written as asked.

    The message is one line: the file, what was wanted, what came, what to do. Where known it names the line
    (counted from 1, as editors do) and the column.

    Examples
    --------
    >>> from suquan.io import read_table
    >>> read_table("nowhere.csv")
    Traceback (most recent call last):
    suquan.io._errors.TableError: nowhere.csv: there is no such file; check the path
    """

    names_file = False  # whether the message begins with the file, which `file_errors` sees to


def require(module: str, extra: str, wish: str):
    """The module, or a TableError that names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise TableError(
            f"{wish} needs {package}, which is not installed; run: pip install 'suquan[{extra}]'"
        ) from None


def refuse(found: object, problem: str) -> None:
    """Raise a TableError that names the problem, where it was found."""
    if found:
        raise TableError(problem)


def one_line(text: object, limit: int = 200) -> str:
    """The text on one line, cut where it is long."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def quoted(text: object) -> str:
    """The text as a short Python literal."""
    literal = repr(str(text))
    return literal if len(literal) <= 60 else literal[:58] + "…'"


def listed(names: Iterable[object], limit: int = 5) -> str:
    """The first few names, quoted, and how many more there are."""
    names = list(names)
    shown = ", ".join(quoted(name) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


@contextmanager
def file_errors(path: str | os.PathLike, *others: type[BaseException]) -> Iterator[None]:
    """Name the file in every TableError, and make one of what goes wrong with it and of the parser's own."""
    try:
        yield
    except TableError as error:
        raise error if error.names_file else _named(path, str(error)) from error.__cause__
    except tuple(PROBLEMS) as error:
        problem = next(said for kind, said in PROBLEMS.items() if isinstance(error, kind))
        raise _named(path, problem) from None
    except DAMAGE as error:
        said = f"damaged or truncated ({one_line(error)}); fetch or write it again"
        raise _named(path, said) from error
    except OSError as error:
        raise _named(path, f"cannot be used ({one_line(error)})") from error
    except others as error:
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise _named(path, f"damaged, or not of its kind ({reason})") from error


def _named(path: str | os.PathLike, problem: str) -> TableError:
    error = TableError(f"{os.fspath(path)}: {problem}")
    error.names_file = True
    return error
