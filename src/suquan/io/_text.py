"""Text tables: their dialect, and their lines and rows with numbers for people.

`_delimited`, `_headed` and `labels` read through a `TextFile`; `writing` asks for the dialect.
"""

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from suquan.io._errors import TableError, one_line, refuse


@dataclass(frozen=True)
class Dialect:
    """How the cells of a text table are separated, and whether they may be in double quotes."""

    delimiter: str
    quoted: bool = True


# The one place where the dialect is decided: it follows from the kind of file.
DIALECTS = {
    "csv": Dialect(","),
    "tsv": Dialect("\t"),
    "gct": Dialect("\t", quoted=False),
    "series_matrix": Dialect("\t"),
}


@dataclass(frozen=True)
class TextFile:
    """A table inside a text file, after `skip` lines, up to the line `end` or the end of the file."""

    path: Path
    gzipped: bool
    dialect: Dialect
    skip: int = 0
    end: str = ""

    def open(self) -> BinaryIO:
        """Open the file as bytes."""
        return cast(BinaryIO, gzip.open(self.path) if self.gzipped else self.path.open("rb"))

    def lines(self) -> Iterator[str]:
        """Lines of the table as text, header first."""
        with self.open() as file:
            for number, line in enumerate(islice(file, self.skip, None), start=self.skip + 1):
                try:
                    text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise TableError(
                        f"line {number} is not UTF-8 text; convert the file "
                        "(for instance: iconv -f latin1 -t utf-8)"
                    ) from None
                if self.end and text.startswith(self.end):
                    return
                yield text
        refuse(self.end, f"ends without the line {self.end}; it is truncated")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Rows of cells, header first, each with the number of its last line; empty lines are left out."""
        quoting: Any = csv.QUOTE_MINIMAL if self.dialect.quoted else csv.QUOTE_NONE
        options: Any = {"delimiter": self.dialect.delimiter, "quoting": quoting, "strict": True}
        reader = csv.reader(self.lines(), **options)
        try:
            for row in reader:
                if row:
                    yield self.skip + reader.line_num, row
        except csv.Error as error:
            raise TableError(
                f"line {self.skip + reader.line_num} cannot be split into cells ({one_line(error)}); "
                "check its quotes and line ends"
            ) from None
