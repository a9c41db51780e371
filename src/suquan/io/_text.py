"""Text tables as files: their lines and rows with numbers for people, and parts for PyArrow to parse."""

import csv
import gzip
import io
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from suquan.io import _source
from suquan.io._errors import TableError, one_line

BOM = b"\xef\xbb\xbf"


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
        with gzip.open(self.path) if self.gzipped else self.path.open("rb") as file:
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
                f"line {number} is not UTF-8 text; convert the file "
                "(for instance: iconv -f latin1 -t utf-8)"
            ) from None

    def _unfinished(self) -> TableError:
        end = "" if self.end is None else self.end.decode()
        return TableError(f"ends without the line {end}; it is truncated")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows of cells, header first, each with the number of its last line; empty lines are passed over."""
        reader = self._reader(self.lines())
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                number = self.skip + reader.line_num
                raise TableError(
                    f"line {number} cannot be split into cells ({one_line(error)}); "
                    "check its quotes and line ends"
                ) from None
            if row:
                yield self.skip + reader.line_num, row

    def _reader(self, lines: Iterable[str]) -> Any:
        quoting: Any = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.delimiter, quoting=quoting, strict=True)

    def row_names(self, skip: int) -> Iterator[str]:
        """First cells of the rows after ``skip`` lines of the file, of which the last is the header."""
        for part in self.parts(skip):
            lines = io.StringIO(part.decode(errors="replace"), newline="")
            if self.quoted and b'"' in part:
                yield from (row[0] for row in self._reader(lines) if row)
            else:
                stripped = (line.strip("\r\n") for line in lines)
                yield from (line.partition(self.delimiter)[0] for line in stripped if line)

    def parts(self, skip: int) -> Iterator[bytes]:
        """The table after ``skip`` lines of the file, in parts of some MiB that end with a row.

        Quotes are checked: PyArrow would read past text after a closing quote, or a quote left open.
        """
        ended, size = False, 2 * _source.VALUES
        with self.open(skip) as file:
            while not ended and (part := file.read(size) + file.readline()):
                if self.end is not None:
                    before, mark, _ = (b"\n" + part).partition(b"\n" + self.end)
                    part, ended = before[1:] + b"\n" * bool(mark), bool(mark)
                if self.quoted and b'"' in part:
                    part = self._whole_rows(part, () if ended else iter(file.readline, b""))
                if part.strip(b"\r\n"):
                    yield part
        if self.end is not None and not ended:
            raise self._unfinished()

    def _whole_rows(self, part: bytes, further: Iterable[bytes]) -> bytes:
        """The part with the further lines that its last row needs."""
        lines, taken = io.BytesIO(part), []

        def decoded() -> Iterator[str]:
            for line in chain(lines, further):
                taken.append(line)
                yield line.decode(errors="replace")

        reader = self._reader(decoded())
        try:
            while lines.tell() < len(part):
                next(reader, None)
        except csv.Error:
            deque(self.rows(), maxlen=0)  # names the line
            raise
        return b"".join(taken)
