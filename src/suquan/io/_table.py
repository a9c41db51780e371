"""The table every reader returns and every writer takes, and the rules its names obey."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from suquan.io._errors import TableError, listed, quoted, refuse

LONGEST_NAME = 1000


@dataclass(frozen=True, eq=False)
class Table:
    """Samples in rows, features in columns, with their names.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_features)
        float32 or float64; NaN where a value is missing, never infinite.
    sample_names : ndarray of shape (n_samples,) of str
        All different.
    feature_names : ndarray of shape (n_features,) of str
        All different.
    labels : dict of str to ndarray of shape (n_samples,), default={}
        Columns that describe the samples and are no features. Text (empty where missing) or float64 (NaN
        where missing).
    orientation : {"rows", "columns"}, default="rows"
        Where the samples lie in the file. ``values`` has them in rows in either case.
    kind : str, default="csv"
        Kind of the file: ``"csv"``, ``"tsv"``, ``"parquet"``, ``"gct"``, ``"series_matrix"``, ``"h5ad"``,
        ``"zarr"``, ``"npz"`` or ``"npy"``.

    Examples
    --------
    >>> from suquan.io import Table
    >>> table = Table([[1.0, 2.0]], sample_names=["s1"], feature_names=["TP53", "ESR1"])
    >>> table.values.shape, table.feature_names.tolist()
    ((1, 2), ['TP53', 'ESR1'])
    """

    values: np.ndarray
    sample_names: np.ndarray
    feature_names: np.ndarray
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    orientation: str = "rows"
    kind: str = "csv"

    def __post_init__(self):
        samples, features = (
            as_names(getattr(self, f"{what}_names"), what) for what in ("sample", "feature")
        )
        shape = len(samples), len(features)
        labels = {
            str(name): as_label(column, str(name), shape[0]) for name, column in self.labels.items()
        }
        self.__dict__.update(
            values=as_values(self.values),
            sample_names=samples,
            feature_names=features,
            labels=labels,
        )
        problem = f"values have shape {self.values.shape}, the names ask for {shape}"
        refuse(self.values.shape != shape, problem)
        is_side = self.orientation in ("rows", "columns")
        refuse(not is_side, f"orientation is 'rows' or 'columns', not {self.orientation!r}")

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.sample_names)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    def __repr__(self) -> str:
        labels = f", labels {', '.join(self.labels)}" if self.labels else ""
        return (
            f"<Table {self.n_samples} samples x {self.n_features} features ({self.kind}){labels}>"
        )


def cut_table(table: Table, start: int, stop: int) -> Table:
    """Take consecutive samples."""
    labels = {name: column[start:stop] for name, column in table.labels.items()}
    names = table.sample_names[start:stop]
    return replace(table, values=table.values[start:stop], sample_names=names, labels=labels)


def join_tables(tables: Sequence[Table]) -> Table:
    """Join blocks of samples, all with the same features and labels."""
    if len(tables) == 1:
        return tables[0]
    labels = {name: np.concatenate([t.labels[name] for t in tables]) for name in tables[0].labels}
    names = np.concatenate([table.sample_names for table in tables])
    values = np.concatenate([table.values for table in tables])
    return replace(tables[0], values=values, sample_names=names, labels=labels)


def turned(table: Table) -> Table:
    """Make features of the samples, and samples of the features; without labels."""
    return Table(table.values.T, table.feature_names, table.sample_names, kind=table.kind)


def made_up_names(what: str, start: int, stop: int) -> list[str]:
    """Number samples or features that have no names, from ``sample_1`` on."""
    return [f"{what}_{i}" for i in range(start + 1, stop + 1)]


def header_of(table: Table, first: str) -> list[str]:
    """Names of the columns of a file with samples in rows: `first`, labels, features, all different."""
    both = set(table.labels).intersection(table.feature_names.tolist())
    refuse(both, f"{listed(sorted(both))} is a label and a feature; rename one of them")
    names = [*table.labels, *table.feature_names.tolist()]
    return ["" if first in names else first, *names]


def as_values(values) -> np.ndarray:
    """Make a float32 or float64 matrix; integers become floats only where every one is representable."""
    values = np.asarray(values)
    refuse(values.ndim != 2, f"a table has two dimensions, these values have {values.ndim}")
    are_numbers = values.dtype.kind in "iuf" and values.dtype.itemsize <= 8
    refuse(not are_numbers, f"values must be integers or floats, not {values.dtype}")
    if values.dtype in (np.float32, np.float64):
        floats = values.astype(values.dtype.newbyteorder("="), copy=False)
    else:
        floats = values.astype(np.float32 if values.dtype.itemsize <= 2 else np.float64)
    is_long = values.dtype.kind in "iu" and values.dtype.itemsize == 8 and values.size > 0
    is_inexact = is_long and max(int(values.max()), -int(values.min())) > 2**53
    cure = "64-bit integers beyond 2**53 are not exact as floats; convert them first"
    refuse(is_inexact, cure)
    return floats


def check_matrix(shape: Sequence[int], dtype: np.dtype, what: str) -> None:
    """Refuse what is no matrix of numbers."""
    is_matrix = len(shape) == 2 and 0 not in shape
    refuse(not is_matrix, f"{what} must be samples x features, its shape is {tuple(shape)}")
    are_numbers = np.dtype(dtype).kind in "iuf" and np.dtype(dtype).itemsize <= 8
    refuse(not are_numbers, f"{what} must hold integers or floats, not {dtype}")


def as_names(names: Iterable, what: str) -> np.ndarray:
    """Make a text array of the names, all different and each a single line of text."""
    if isinstance(names, np.ndarray):
        names = (decode_names(names) if names.dtype.kind == "S" else names).tolist()
    names = [str(name) for name in names]
    problem = next(filter(None, map(name_problem, names)), None)
    repeated = listed(repeated_names(names))
    if problem is None and repeated:
        problem = f"{repeated} occurs more than once; names must differ"
    refuse(problem, f"{what} names: {problem}")
    return np.array(names, dtype=str)


def name_problem(name: str) -> str | None:
    """Say what is wrong with one name; None if nothing is."""
    if name.isprintable() and 0 < len(name) <= LONGEST_NAME:
        return None
    if not name:
        return "a name is empty; give every one a name"
    if len(name) > LONGEST_NAME:
        return f"{quoted(name)} has {len(name)} characters; {LONGEST_NAME} is the limit"
    if any(ord(c) < 32 or ord(c) == 127 for c in name):
        return f"{quoted(name)} holds a control character; names are one line of text"
    if any("\ud800" <= c <= "\udfff" for c in name):
        return f"{quoted(name)} is not valid text"
    return None


def repeated_names(names: Iterable[str]) -> list[str]:
    """Find the names that occur again."""
    return [name for name, count in Counter(names).items() if count > 1]


def match_name(name: str, names: Collection[str]) -> str:
    """Find a name, or the one that alone differs from it by case and outer blanks; else return it unchanged."""
    alike = [other for other in names if other.strip().casefold() == name.strip().casefold()]
    return alike[0] if len(alike) == 1 and name not in names else name


def _bare(name: str) -> str:
    return re.sub(r"[\s.-]", "", name).casefold()


def spelling_hint(names: Iterable[str], others: Iterable[str]) -> str:
    """Tell how many names are among the others but for case, blanks, dots and dashes; nothing if none is."""
    known = {_bare(name): name for name in others}
    pairs = [(name, known[_bare(name)]) for name in names if _bare(name) in known]
    told = f"the same but for case, blanks, dots and dashes: {len(pairs)}"
    return f"{told}, such as {quoted(pairs[0][0])} and {quoted(pairs[0][1])}" if pairs else ""


def no_feature_matches(wanted: Sequence[str], names: Sequence[str], found: str) -> str:
    """Say that a model's features are none of a table's names; `found` shows some of these."""
    told = f"none of the model's {len(wanted):,} features is in the table"
    known = f"the model has {quoted(wanted[0])}, the table {found}"
    hint = spelling_hint(wanted, names)
    return "; ".join(filter(None, [told, known, hint, "give the features the model's names"]))


def as_label(column, name: str, n_samples: int) -> np.ndarray:
    """Make a label column: numbers and booleans as float64, bytes and text as text, one per sample."""
    column, problem, called = np.asarray(column), name_problem(name), f"label {quoted(name)}"
    refuse(problem, f"label names: {problem}")
    refuse(column.ndim != 1, f"{called} must be one-dimensional, not {column.ndim}")
    counts = f"has {len(column)} entries for {n_samples} samples"
    refuse(len(column) != n_samples, f"{called} {counts}")
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind == "S":
        return decode_names(column)
    is_text = column.dtype.kind in "UTO" and all(isinstance(cell, str) for cell in column.tolist())
    refuse(not is_text, f"{called} holds neither numbers nor text ({column.dtype})")
    return column.astype(str)


def decode_names(names: np.ndarray) -> np.ndarray:
    """Decode byte strings."""
    try:
        return np.array([entry.decode("utf-8") for entry in names.tolist()], dtype=str)
    except UnicodeDecodeError as error:
        raise TableError(f"names are not UTF-8 text ({error})") from None
