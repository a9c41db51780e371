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

ROWS_IN_PART = 100  # at least, where they are not too long
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
    end : bytes, default=b""
        The line that ends the table; empty: the end of the file.
    """

    path: Path
    gzipped: bool
    delimiter: str
    quoted: bool = True
    skip: int = 0
    end: bytes = b""

    @contextmanager
    def open(self, skip: int = 0) -> Iterator[BinaryIO]:
        """The bytes of the file, after ``skip`` lines."""
        with gzip.open(self.path) if self.gzipped else self.path.open("rb") as file:
            for _ in range(skip):
                file.readline()
            yield cast(BinaryIO, file)

    def lines(self) -> Iterator[str]:
        """Lines of the table as text, header first."""
        with self.open(self.skip) as file:
            for number, line in enumerate(file, start=self.skip + 1):
                if self.end and line.startswith(self.end):
                    return
                try:
                    yield (line.removeprefix(BOM) if number == 1 else line).decode("utf-8")
                except UnicodeDecodeError:
                    raise TableError(
                        f"line {number} is not UTF-8 text; convert the file "
                        "(for instance: iconv -f latin1 -t utf-8)"
                    ) from None
        self._refuse_without_end()

    def _refuse_without_end(self) -> None:
        if self.end:
            raise TableError(f"ends without the line {self.end.decode()}; it is truncated")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows of cells, header first, each with the number of its last line; empty lines are passed over."""
        reader = self._reader(self.lines())
        try:
            for row in reader:
                if row:
                    yield self.skip + reader.line_num, row
        except csv.Error as error:
            raise TableError(
                f"line {self.skip + reader.line_num} cannot be split into cells ({one_line(error)}); "
                "check its quotes and line ends"
            ) from None

    def _reader(self, lines: Iterable[str]) -> Any:
        quoting: Any = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.delimiter, quoting=quoting, strict=True)

    def parts(self, skip: int) -> Iterator[bytes]:
        """The table after ``skip`` lines of the file, in parts of some MiB that end with a row.

        Quotes are checked: PyArrow would read past text after a closing quote, or a quote left open. Parts of a
        wide table are larger, because PyArrow prepares every column anew for each.
        """
        ended = False
        with self.open(skip) as file:
            line = file.readline()
            size = min(8 * _source.VALUES, max(2 * _source.VALUES, ROWS_IN_PART * len(line)))
            while not ended and (part := line + file.read(size) + file.readline()):
                line = b""
                if self.end:
                    before, mark, _ = (b"\n" + part).partition(b"\n" + self.end)
                    part, ended = before[1:] + b"\n" * bool(mark), bool(mark)
                if self.quoted and b'"' in part:
                    part = self._whole_rows(part, () if ended else iter(file.readline, b""))
                if part.strip(b"\r\n"):
                    yield part
        if not ended:
            self._refuse_without_end()

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
