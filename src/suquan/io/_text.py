"""Text tables as files: their lines and rows with numbers for people, and streams for PyArrow to parse."""

import csv
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from suquan.io._errors import TableError, file_errors, one_line, require

BOM = b"\xef\xbb\xbf"
MEGABYTE = 2**20


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
        with (
            file_errors(self.path),
            gzip.open(self.path) if self.gzipped else self.path.open("rb") as file,
        ):
            for _ in range(skip):
                file.readline()
            yield cast(BinaryIO, file)

    def lines(self, skip: int | None = None) -> Iterator[str]:
        """Lines of the table as text, header first."""
        skip = self.skip if skip is None else skip
        with self.open(skip) as file:
            for number, line in enumerate(file, start=skip + 1):
                if self.end is not None and line.startswith(self.end):
                    return
                yield self._decode(line, number)
        if self.end is not None:
            raise self._unfinished()

    def _decode(self, line: bytes, number: int) -> str:
        try:
            return (line.removeprefix(BOM) if number == 1 else line).decode("utf-8")
        except UnicodeDecodeError:
            raise TableError(
                f"{self.path}: line {number} is not UTF-8 text; convert the file "
                "(for instance: iconv -f latin1 -t utf-8)"
            ) from None

    def _unfinished(self) -> TableError:
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

    def row_names(self, skip: int) -> Iterator[str]:
        """First cells of the rows after ``skip`` lines of the file, of which the last is the header."""
        if self.has_quotes(skip):
            return (row[0] for _, row in islice(self.rows(), 1, None))
        lines = (line.strip("\r\n") for line in self.lines(skip))
        return (line.partition(self.delimiter)[0] for line in lines if line)

    def has_quotes(self, skip: int) -> bool:
        """Whether there are quotes after ``skip`` lines of the file."""
        with self.open(skip) as file:
            parts = iter(lambda: file.read(MEGABYTE), b"")
            return self.quoted and any(b'"' in part for part in parts)

    def streams(self, skip: int, size: int) -> Iterator[Any]:
        """The table after ``skip`` lines of the file, in streams that PyArrow owns and that end with a row.

        A file or memory of Python's would be let go of by a thread of PyArrow's, which needs the interpreter
        for that: Python 3.11 aborts when it ends just then. A table that a line ends is read here, ``size``
        bytes at a time; its cells hold no line breaks.
        """
        arrow = require("pyarrow", "io", "reading CSV and TSV files")
        if self.end is None:
            with self.open() as file:
                n_bytes = sum(len(file.readline()) for _ in range(skip))
            stream = arrow.OSFile(str(self.path))
            stream = arrow.CompressedInputStream(stream, "gzip") if self.gzipped else stream
            stream.read(n_bytes)
            yield stream
            return
        with self.open(skip) as file:
            while lines := file.readlines(size):
                last = next((i for i, line in enumerate(lines) if line.startswith(self.end)), None)
                part = b"".join(lines[:last])
                if part.strip():
                    memory = arrow.allocate_buffer(len(part))
                    memoryview(memory).cast("B")[:] = part
                    yield arrow.BufferReader(memory)
                if last is not None:
                    return
        raise self._unfinished()
