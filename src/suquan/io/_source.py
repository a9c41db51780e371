"""What was asked for, what the reader of a format hands over to `reading`, and where the samples lie.

The reader of every format opens a file as a `Source`, which passes over it in blocks of samples.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from suquan.io._errors import TableError, listed, refuse
from suquan.io._table import Table, match_name, no_feature_matches, spelling_hint

VALUES = 4 * 2**20  # values of a table in a block of usual size: 32 MiB of doubles
# Words in the heading of the column of names, by what the rows then are.
SAMPLE_WORDS = {"sample", "patient", "subject", "individual", "donor", "cell"}
FEATURE_WORDS = {"feature", "gene", "probe", "probeset", "transcript", "protein", "symbol", "ref"}


def rows_at_once(width: int) -> int:
    """Rows of this width in a block of usual size."""
    return max(1, VALUES // max(1, width))


@dataclass(frozen=True)
class ReadOptions:
    """What the caller of a reader asked for; `features` are the names or the number of those expected."""

    samples: str = "auto"
    sample_names: frozenset[str] | None = None
    label_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()
    layer: str | None = None
    features: frozenset[str] | int | None = None

    def in_terms_of(self, header: Collection[str]) -> "ReadOptions":
        """Name the columns as the header does, which may differ by case and outer blanks."""
        named = (self.label_columns, self.ignore_columns)
        labels, ignored = (tuple(match_name(name, header) for name in names) for names in named)
        return replace(self, label_columns=labels, ignore_columns=ignored)


@dataclass
class Source:
    """An opened table."""

    kind: str
    orientation: str  # where the samples lie in the file: "rows" or "columns"
    tables: Callable[[], Iterator[Table]]  # passes over the file in blocks of samples of any length
    why: str = ""  # who says so; empty where every file of the kind has its samples there
    label_names: Collection[str] | None = None  # labels that there are, where that is known


def choose_orientation(
    options: ReadOptions, header: list[str], row_names: Callable[[], Iterable[str]]
) -> tuple[str, str]:
    """Find where the samples lie in a file of a kind that allows both, and who says so.

    As asked; or by the names of the samples, of the features, of the labels, or by the heading of the column of
    names (the first of the header). One row or one column is one sample; any other table is refused.
    """
    if options.samples != "auto":
        return options.samples, "as given"
    columns = [name for name in header[1:] if name not in options.ignore_columns]
    rows = cache(lambda: list(row_names()))
    if options.sample_names is not None:
        return _by_sample_names(options.sample_names, rows(), columns)

    def votes(described: Collection[str] | int | None) -> tuple[int, int]:
        """How much speaks for samples in rows and in columns, by what describes each sample."""
        if isinstance(described, int):
            return len(columns) == described, len(rows()) == described
        names = set(described or ())
        across = len(names.intersection(columns))
        return across, len(names.intersection(rows())) if across < len(names) else 0

    words = {word.removesuffix("s") for word in re.split("[^a-z]+", header[0].lower())}
    number_of = "number" if isinstance(options.features, int) else "names"
    evidence: dict[str, Callable[[], tuple[int, int]]] = {
        f"{number_of} of the model's features": lambda: votes(options.features),
        "names of the labels": lambda: votes(options.label_columns),
        f"heading {header[0]!r}": lambda: (len(words & SAMPLE_WORDS), len(words & FEATURE_WORDS)),
    }
    for what, count in evidence.items():
        for_rows, for_columns = count()
        if for_rows != for_columns:
            return "rows" if for_rows > for_columns else "columns", f"chosen by the {what}"
    n, p = len(rows()), len(columns)
    if 1 in (n, p):
        side = "row" if n == 1 else "column"
        return f"{side}s", f"as in every table of one {side}"
    names = [*rows(), *columns]
    if isinstance(options.features, frozenset) and options.features.isdisjoint(names):
        sides = f"{listed(rows()[:1])} in its rows and {listed(columns[:1])} in its columns"
        raise TableError(no_feature_matches(sorted(options.features), names, sides))
    raise TableError(
        f"cannot tell whether samples are rows or columns; give samples='rows' for {n:,} samples "
        f"({listed(rows(), 2)}) of {p:,} features ({listed(columns, 2)}), or samples='columns' for {p:,} "
        f"samples of {n:,} features"
    )


def _by_sample_names(
    wanted: frozenset[str], rows: list[str], columns: list[str]
) -> tuple[str, str]:
    for_rows, for_columns = (len(wanted.intersection(names)) for names in (rows, columns))
    if for_rows != for_columns:
        side = "rows" if for_rows > for_columns else "columns"
        return side, "chosen by the names of the samples"
    both = f"{for_rows} of the wanted samples name rows and as many columns"
    refuse(for_rows, f"{both}; give samples='rows' or samples='columns'")
    some = f"{len(wanted)} wanted samples ({listed(sorted(wanted), 3)})"
    sides = f"names a row ({listed(rows, 3)}) or a column ({listed(columns, 3)})"
    cure = "check that both files use the same sample names"
    hint = spelling_hint(sorted(wanted), [*rows, *columns])
    raise TableError("; ".join(filter(None, [f"none of the {some} {sides}", hint, cure])))
