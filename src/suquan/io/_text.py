"""Text tables as files: opening them, their lines and rows with numbers, and parts of them to parse."""

import csv
import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from suquan.io._errors import TableError, file_errors, one_line

BOM = b"\xef\xbb\xbf"
_NOT_EMPTY = re.compile(rb"[^\r\n]")


@dataclass(frozen=True)
class TextFile:
    """A delimited table inside a text file.

    Parameters
    ----------
    path, gzipped, delimiter
        The file.
    quoted : bool, default=True
        Whether cells may be in double quotes.
    skip : int, default=0
        Lines before the header of the table.
    end : bytes or None, default=None
        The line that ends the table; None: the end of the file.
    """

    path: Path
    gzipped: bool
    delimiter: str
    quoted: bool = True
    skip: int = 0
    end: bytes | None = None

    @contextmanager
    def open(self, skip: int = 0) -> Iterator[BinaryIO]:
        """The bytes of the file, after ``skip`` lines."""
        with file_errors(self.path), self._open() as file:
            for _ in range(skip):
                file.readline()
            yield file

    def _open(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self.path) if self.gzipped else self.path.open("rb"))

    def lines(self, skip: int | None = None) -> Iterator[str]:
        """Lines of the table as text, header first."""
        skip = self.skip if skip is None else skip
        with self.open(skip) as file:
            for number, line in enumerate(file, start=skip + 1):
                if self.end is not None and line.startswith(self.end):
                    return
                yield self.decode(line, number)
        if self.end is not None:
            raise self.unfinished()

    def decode(self, line: bytes, number: int) -> str:
        """One line as text; a byte order mark before the first line is dropped."""
        try:
            return (line.removeprefix(BOM) if number == 1 else line).decode("utf-8")
        except UnicodeDecodeError:
            raise TableError(
                f"{self.path}: line {number} is not UTF-8 text; convert the file "
                "(for instance: iconv -f latin1 -t utf-8)"
            ) from None

    def unfinished(self) -> TableError:
        """The error for a table whose last line did not come."""
        end = "" if self.end is None else self.end.decode()
        return TableError(f"{self.path}: ends without the line {end}; it is truncated")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows of cells, header first, each with the number of its last line; empty lines are passed over."""
        reader = csv.reader(
            self.lines(),
            delimiter=self.delimiter,
            quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
            strict=True,
        )
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                number = self.skip + reader.line_num
                raise TableError(
                    f"{self.path}: line {number} cannot be split into cells ({one_line(error)}); "
                    "check its quotes and line ends"
                ) from None
            if row:
                yield self.skip + reader.line_num, row

    def check_quotes(self) -> None:
        """Refuse quotes that PyArrow would read past: text after a closing quote, or a quote left open."""
        for _ in self.rows():
            pass

    def parts(self, file: BinaryIO, size: int) -> Iterator[memoryview]:
        """The opened file up to the end of the table, in parts of whole rows; reads `size` bytes at a time.

        A table with quotes is checked as a whole when the first is seen.
        """
        rest = b""
        quotes_checked = not self.quoted
        for read in self._reads(file, size):
            if not quotes_checked and b'"' in read:
                self.check_quotes()
                quotes_checked = True
            text = rest + read
            del read
            end = self._last_row_end(text)
            rest = text[end:]
            if _NOT_EMPTY.search(text, 0, end):
                yield memoryview(text)[:end]
        if _NOT_EMPTY.search(rest):
            yield memoryview(rest)

    def _reads(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        """What is read at a time: bytes, or whole lines where one of them ends the table."""
        if self.end is None:
            yield from iter(lambda: file.read(size), b"")
            return
        while lines := file.readlines(size):
            for i, line in enumerate(lines):
                if line.startswith(self.end):
                    yield b"".join(lines[:i])
                    return
            yield b"".join(lines)
        raise self.unfinished()

    def _last_row_end(self, text: bytes) -> int:
        """Bytes up to the end of the last row that is complete."""
        if self.quoted and b'"' in text:
            # Not at the top: Numba takes a second to load, and most files have no quotes.
            from suquan._kernels.text import last_row_end

            return last_row_end(np.frombuffer(text, np.uint8), ord(self.delimiter))
        return text.rfind(b"\n") + 1
