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
    sample_names: Iterable[str] | None = None
    label_columns: Iterable[str] = ()
    ignore_columns: Iterable[str] = ()
    layer: str | None = None
    features: frozenset[str] | int | None = None

    def __post_init__(self) -> None:
        if self.samples not in ("auto", "rows", "columns"):
            raise ValueError(f"samples must be 'auto', 'rows' or 'columns', got {self.samples!r}")
        for name in ("label_columns", "ignore_columns"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise ValueError(f"{name} takes several names; write [{given!r}]")
            object.__setattr__(self, name, tuple(dict.fromkeys(given)))
        if self.sample_names is not None:
            object.__setattr__(self, "sample_names", frozenset(map(str, self.sample_names)))

    def in_terms_of(self, header: Collection[str]) -> "ReadOptions":
        """Name the columns as the header does, which may differ by case and outer blanks."""
        named = (self.label_columns, self.ignore_columns)
        labels, ignored = (tuple(match_name(name, header) for name in names) for names in named)
        return replace(self, label_columns=labels, ignore_columns=ignored)


def check_named(options: ReadOptions, option: str, columns: list[str]) -> None:
    """Refuse names of columns that are not there."""
    absent = [name for name in getattr(options, option) if name not in columns]
    where = f"which is none of its columns ({listed(columns)})"
    refuse(absent, f"{option} names {listed(absent)}, {where}")


def check_layer(options: ReadOptions, kind: str) -> None:
    """Refuse a layer where there are none."""
    place = f"layers are a part of h5ad and zarr files, not of {kind}"
    refuse(options.layer is not None and kind not in ("h5ad", "zarr"), f"{place}; leave layer out")


def check_labels(options: ReadOptions, names: Collection[str] | None) -> None:
    """Refuse labels that are not there, where those that are there are known."""
    if names is not None:
        named = options.in_terms_of(names).label_columns
        absent = listed([name for name in named if name not in names])
        refuse(absent, f"there is no label {absent}; there is {listed(names) or 'none'}")


@dataclass(frozen=True)
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

    def votes(names: Iterable[str]) -> tuple[int, int]:
        """How many of the names are columns, and how many are rows."""
        return len(set(names).intersection(columns)), len(set(names).intersection(rows()))

    def evidence() -> Iterator[tuple[str, tuple[int, int]]]:
        """What speaks for samples in rows and in columns; the names of the rows take a pass over the file."""
        if options.sample_names is not None:
            for_columns, for_rows = votes(options.sample_names)
            yield "names of the samples", (for_rows, for_columns)
            raise _no_sample_matches(options.sample_names, rows(), columns, for_rows)
        if isinstance(options.features, int):
            counts = len(columns) == options.features, len(rows()) == options.features
            yield "number of the model's features", counts
        elif options.features is not None:
            yield "names of the model's features", votes(options.features)
        if options.label_columns:
            yield "names of the labels", votes(options.label_columns)
        words = {word.removesuffix("s") for word in re.split("[^a-z]+", header[0].lower())}
        yield f"heading {header[0]!r}", (len(words & SAMPLE_WORDS), len(words & FEATURE_WORDS))

    for what, (for_rows, for_columns) in evidence():
        if for_rows != for_columns:
            return "rows" if for_rows > for_columns else "columns", f"chosen by the {what}"
    n, p, features = len(rows()), len(columns), options.features
    if 1 in (n, p):
        side = "row" if n == 1 else "column"
        return f"{side}s", f"as in every table of one {side}"
    if isinstance(features, frozenset) and features.isdisjoint([*rows(), *columns]):
        sides = f"{listed(rows()[:1])} in its rows and {listed(columns[:1])} in its columns"
        raise TableError(no_feature_matches(sorted(features), [*rows(), *columns], sides))
    raise TableError(
        f"cannot tell whether samples are rows or columns; give samples='rows' for {n:,} samples "
        f"({listed(rows(), 2)}) of {p:,} features ({listed(columns, 2)}), or samples='columns' for {p:,} "
        f"samples of {n:,} features"
    )


def _no_sample_matches(
    wanted: Iterable[str], rows: list[str], columns: list[str], n_found: int
) -> TableError:
    if n_found:
        both = f"{n_found} of the wanted samples name rows and as many columns"
        return TableError(f"{both}; give samples='rows' or samples='columns'")
    wanted = sorted(wanted)
    some = f"{len(wanted)} wanted samples ({listed(wanted, 3)})"
    sides = f"names a row ({listed(rows, 3)}) or a column ({listed(columns, 3)})"
    cure = "check that both files use the same sample names"
    hint = spelling_hint(wanted, [*rows, *columns])
    return TableError("; ".join(filter(None, [f"none of the {some} {sides}", hint, cure])))
