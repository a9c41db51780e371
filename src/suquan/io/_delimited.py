"""CSV and TSV: which columns of the file are names, values and labels; its rows in blocks of samples.

PyArrow parses and converts, but names neither line nor column, and accepts spellings of NaN and infinity that
are not wanted here; so when something is wrong, the file is read again cell by cell, to name the place.
`reading` opens files here; `_headed` has its tables read here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from suquan.io._cells import (
    MISSING,
    is_number,
    label_array,
    number_problem,
    text_array,
    text_problem,
)
from suquan.io._errors import TableError, listed, one_line, quoted, refuse, require
from suquan.io._source import ReadOptions, Source, choose_orientation
from suquan.io._table import Table, name_problem, repeated_names
from suquan.io._text import ARROW_WISH, TextFile

ROWS_LOOKED_AT = 100  # rows in which a column must show its first value to count as text
BLOCK_BYTES = 2**22  # of text that PyArrow parses at a time, or more where rows are long
NAME_HEADERS = ("name", "names", "sample", "samples", "feature", "features", "gene", "id", "id_ref")
Rows = list[tuple[int, list[str]]]
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


@dataclass
class Plan:
    """How the columns of a delimited file are read; the first column holds the names of the rows."""

    text: TextFile
    kind: str
    header: list[str]
    first_line: int  # lines of the file before the first row of data
    orientation: str
    numeric: list[int]
    text_columns: list[int] = field(default_factory=list)  # found to be text: must stay text
    label_columns: list[int] = field(default_factory=list)  # asked for as labels: anything goes
    label_rows: frozenset[str] = frozenset()
    labels: dict[str, np.ndarray] = field(default_factory=dict)  # from lines before the table
    announced_rows: int | None = None  # rows of data that there must be (GCT)

    @property
    def strings(self) -> list[int]:
        """Columns that are read as text, besides the names."""
        return sorted([*self.text_columns, *self.label_columns])


# ------------------------------------------------------------------------------------------------ opening


def open_delimited(text: TextFile, kind: str, options: ReadOptions) -> Source:
    """Open a CSV or TSV file."""
    header, first_line = read_header(text)
    options = options.in_terms_of(header)
    orientation, why = choose_orientation(
        options, header, lambda: (row[0] for _, row in islice(text.rows(), 1, None))
    )
    for option in ("ignore_columns", "label_columns")[: 2 if orientation == "rows" else 1]:
        absent = [name for name in getattr(options, option) if name not in header[1:]]
        where = f"which is none of its columns ({listed(header[1:])})"
        refuse(absent, f"{option} names {listed(absent)}, {where}")
    first_rows = list(islice(text.rows(), 1, 1 + ROWS_LOOKED_AT))
    _refuse_numbers_as_names(header[0], first_rows)
    numeric = [j for j, name in enumerate(header) if j and name not in options.ignore_columns]
    plan = Plan(text, kind, header, first_line, orientation, numeric)
    if orientation == "rows":
        plan.label_columns = [header.index(name) for name in options.label_columns]
        numeric = [j for j in numeric if j not in plan.label_columns]
        plan.text_columns = [j for j in numeric if _is_text(j, first_rows)]
        plan.numeric = [j for j in numeric if j not in plan.text_columns]
    else:
        plan.label_rows = frozenset(options.label_columns)
    if not plan.numeric:
        raise find_problem(plan) or TableError("there is no column of numbers")
    return Source(kind, orientation, partial(read_plan, plan), why)


def read_header(text: TextFile) -> tuple[list[str], int]:
    """Cells of the header and the number of its line."""
    line, header = next(text.rows(), (0, []))
    refuse(not header, "holds no header; a table has a header and rows")
    if len(header) < 2:
        raise TableError(f"line {line} {_one_cell_hint(text.dialect.delimiter, header[0])}")
    for j, name in enumerate(header):
        problem = name_problem(name) if j or name else None
        refuse(problem, f"header, column {j + 1}: {problem}")
    repeated = listed(repeated_names(header))
    refuse(repeated, f"the header has {repeated} more than once; names must differ")
    return header, line


def _one_cell_hint(delimiter: str, cell: str) -> str:
    wanted = SEPARATORS[delimiter]
    for other, what in SEPARATORS.items():
        if other != delimiter and other in cell:
            cures = {",": "name it .csv", "\t": "name it .tsv"}
            cure = cures.get(other, "save it with commas and decimal points")
            return f"is separated by {what}, the name of the file asks for {wanted}; {cure}"
    return (
        f"has one cell ({quoted(cell)}); a table has names in its first column and at least one "
        f"further column, separated by {wanted}"
    )


def _refuse_numbers_as_names(heading: str, first_rows: Rows) -> None:
    """Refuse a measurement as the first name, unless the heading says that it is a name."""
    if first_rows and heading and heading.lower() not in NAME_HEADERS:
        line, (name, *_) = first_rows[0]
        refuse(
            is_number(name) and not name.strip().isdigit(),
            f"line {line}: the first column holds the names of the rows, but {quoted(name)} is a "
            "measurement; put names first, or, if these are the names, call the column 'name' "
            f"instead of {quoted(heading)}",
        )


def _is_text(j: int, rows: Rows) -> bool:
    """Tell whether the first cell of a column that is not missing is no number."""
    cells = (row[j] for _, row in rows if j < len(row) and row[j] not in MISSING)
    return not is_number(next(cells, "0"))


# ---------------------------------------------------------------------------------------- blocks of values


def read_plan(plan: Plan) -> Iterator[Table]:
    """Read the file, checked: in blocks where samples lie in rows, else as one table."""
    try:
        read = _samples_in_rows if plan.orientation == "rows" else _samples_in_columns
        yield from read(plan, _batches(plan))
    except TableError:
        raise
    except (ValueError, OSError, KeyError, NotImplementedError) as error:
        unknown = TableError(f"cannot be parsed ({one_line(error)})")
        raise find_problem(plan) or unknown from error


def _batches(plan: Plan) -> Iterator[tuple[list[str], Any]]:
    """Names of rows, and a batch of PyArrow with their text and then their numbers, again and again."""
    arrow, arrow_csv = (require(name, "io", ARROW_WISH) for name in ("pyarrow", "pyarrow.csv"))
    if not any(line > plan.first_line for line, _ in plan.text.rows()):
        return
    has_quotes = plan.text.has_quotes()
    stream, few_rows = plan.text.arrow_stream(plan.first_line)
    types = dict.fromkeys(map(str, [0, *plan.strings]), arrow.string())
    # Rows of labels are not yet told from rows of numbers.
    number = arrow.string() if plan.label_rows else arrow.float64()
    types |= dict.fromkeys(map(str, plan.numeric), number)
    reading = arrow_csv.ReadOptions(
        column_names=[str(j) for j in range(len(plan.header))],
        block_size=min(2**31 - 1, max(BLOCK_BYTES, 32 * few_rows)),
        use_threads=False,
    )
    parsing = arrow_csv.ParseOptions(
        delimiter=plan.text.dialect.delimiter,
        quote_char='"' if has_quotes else False,
        newlines_in_values=has_quotes,
    )
    converting = arrow_csv.ConvertOptions(
        column_types=types,
        include_columns=list(types),
        null_values=list(MISSING),
        strings_can_be_null=False,
    )
    for batch in arrow_csv.open_csv(stream, reading, parsing, converting):
        names = batch.column(0).to_pylist()
        _refuse_found(plan, any(map(name_problem, names)))
        yield names, batch


def _samples_in_rows(plan: Plan, batches: Iterator[tuple[list[str], Any]]) -> Iterator[Table]:
    features = np.array(plan.header)[plan.numeric]
    for names, batch in batches:
        cells = {j: batch.column(i).to_pylist() for i, j in enumerate(plan.strings, start=1)}
        _refuse_found(plan, any(any(map(text_problem, cells[j])) for j in plan.text_columns))
        labels = {plan.header[j]: text_array(column) for j, column in cells.items()}
        values = _numbers(plan, batch.select(range(1 + len(cells), batch.num_columns)))
        yield Table(values, np.array(names), features, labels, "rows", plan.kind)


def _samples_in_columns(plan: Plan, batches: Iterator[tuple[list[str], Any]]) -> Iterator[Table]:
    """Read all features, and the rows that are labels, for one table."""
    arrow = require("pyarrow", "io", ARROW_WISH)
    features, parts, labels = list[str](), list[np.ndarray](), dict(plan.labels)
    for names, batch in batches:
        batch = batch.remove_column(0)
        for i in [i for i, name in enumerate(names) if name in plan.label_rows]:
            refuse(names[i] in labels, f"the row {quoted(names[i])} occurs more than once")
            labels[names[i]] = label_array([column[i].as_py() for column in batch.columns])
        if plan.label_rows:
            keep = [i for i, name in enumerate(names) if name not in plan.label_rows]
            names = [names[i] for i in keep]
            batch = _as_numbers(arrow, batch.take(arrow.array(keep, arrow.int64())))
        features += names
        parts.append(_numbers(plan, batch).T)
    refuse(
        plan.announced_rows not in (None, len(features)),
        f"line 2 announces {plan.announced_rows} features, the file has {len(features)}; "
        "it is truncated or line 2 is wrong",
    )
    absent = listed(sorted(plan.label_rows.difference(labels)))
    refuse(absent, f"label_columns names {absent}, which is none of its rows")
    if features:
        values, samples = np.concatenate(parts, axis=1), np.array(plan.header)[plan.numeric]
        yield Table(values, samples, np.array(features), labels, "columns", plan.kind)


def _as_numbers(arrow: Any, batch: Any) -> Any:
    """Convert cells of text."""
    compute = require("pyarrow.compute", "io", ARROW_WISH)
    missing, columns = arrow.array(MISSING), []
    for column in batch.columns:
        known = compute.if_else(compute.is_in(column, missing), None, column)
        columns.append(compute.utf8_trim(known, " \t").cast(arrow.float64()))
    return arrow.record_batch(columns, names=batch.schema.names)


def _numbers(plan: Plan, batch: Any) -> np.ndarray:
    """Values of columns of numbers, NaN where missing."""
    values = batch.to_tensor(null_to_nan=True).to_numpy()
    n_missing = values.size - int(np.isfinite(values).sum())
    # A cell that spells infinity or an unknown NaN is not finite and no null.
    n_null = sum(column.null_count for column in batch.columns) if n_missing else 0
    _refuse_found(plan, n_missing != n_null)
    return values


# ------------------------------------------------------------------------------------- where it goes wrong


def _refuse_found(plan: Plan, found: bool) -> None:
    if found:
        raise find_problem(plan) or TableError("cannot be parsed")


def find_problem(plan: Plan) -> TableError | None:
    """Find the first thing that is wrong with the file, with its line and column."""
    try:
        for line, row in plan.text.rows():
            if line > plan.first_line:
                check_width(plan.text, plan.header, row, line)
                _check_row(plan, row, f"line {line}")
    except TableError as problem:
        return problem
    return None


def check_width(text: TextFile, header: list[str], row: list[str], line: int) -> None:
    """Refuse a row with fewer or more cells than the header."""
    hint = "check the line"
    if len(row) == len(header) + 1 and not row[-1]:
        hint = "the line ends with a separator too many"
    elif len(row) == len(header) + 1 and text.dialect.delimiter == "\t":
        hint = "if R wrote the file, write it with col.names=NA so that the first column has a name"
    elif text.dialect.delimiter == ",":
        hint = "check the line for decimal commas and unquoted commas"
    cells = f"line {line} has {len(row)} cells, the header has {len(header)}"
    refuse(len(row) != len(header), f"{cells}; {hint}")


def _check_row(plan: Plan, row: list[str], where: str) -> None:
    problem = name_problem(row[0])
    refuse(problem, f"{where}, column 1: {problem}")
    if row[0] in plan.label_rows:
        return
    for j in plan.numeric:
        if (problem := number_problem(row[j])) is None:
            continue
        cure = "a column that is no feature goes into label_columns or ignore_columns"
        if plan.orientation == "columns":
            cure = (
                f"a column that is no sample goes into ignore_columns ({quoted(plan.header[j])}), "
                f"a row that is a label into label_columns ({quoted(row[0])})"
            )
        where += f", column {quoted(plan.header[j])}: {quoted(row[j])}"
        raise TableError(f"{where} is not a usable number; {problem}; {cure}")
    for j in plan.text_columns:
        problem = text_problem(row[j])
        cell = f"column {quoted(plan.header[j])}: {quoted(row[j])}"
        cure = "correct it, or name the column in label_columns or ignore_columns"
        refuse(problem, f"{where}, {cell} {problem}; {cure}")
