"""CSV and TSV: which columns of the file are names, values and labels; its rows in blocks of samples.

One pass of the standard library's strict reader, so that whatever is wrong is named by its line and column.
`reading` opens files here; `_headed` has its tables read here, and `labels` asks for header and width.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, islice

import numpy as np

from suquan.io._cells import (
    MISSING,
    is_number,
    label_array,
    number_problem,
    read_numbers,
    text_array,
    text_problem,
)
from suquan.io._errors import TableError, listed, quoted, refuse
from suquan.io._source import ReadOptions, Source, choose_orientation, rows_at_once
from suquan.io._table import Table, name_problem, repeated_names
from suquan.io._text import TextFile

ROWS_LOOKED_AT = 100  # rows in which a column must show its first value to count as text
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
        list(_rows(plan))  # what is wrong with a row tells more
        raise TableError("there is no column of numbers")
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
    if plan.orientation == "columns":
        yield from _samples_in_columns(plan)
        return
    rows, step = _rows(plan), rows_at_once(len(plan.numeric))
    features = np.array(plan.header)[plan.numeric]
    strings = sorted([*plan.text_columns, *plan.label_columns])
    while True:
        names, values, texts = list[str](), list[np.ndarray](), list[list[str]]()
        for row, numbers in islice(rows, step):
            names.append(row[0])
            values.append(numbers)
            texts.append([row[j] for j in strings])
        if not names:
            return
        cells = zip(*texts, strict=True)
        labels = {plan.header[j]: text_array(list(c)) for j, c in zip(strings, cells, strict=False)}
        yield Table(np.array(values), np.array(names), features, labels, "rows", plan.kind)


def _samples_in_columns(plan: Plan) -> Iterator[Table]:
    """Read all features, and the rows that are labels, for one table."""
    features, values, labels = list[str](), list[np.ndarray](), dict(plan.labels)
    for row, numbers in _rows(plan):
        if row[0] not in plan.label_rows:
            features.append(row[0])
            values.append(numbers)
            continue
        refuse(row[0] in labels, f"the row {quoted(row[0])} occurs more than once")
        labels[row[0]] = label_array([row[j] for j in plan.numeric])
    refuse(
        plan.announced_rows not in (None, len(features)),
        f"line 2 announces {plan.announced_rows} features, the file has {len(features)}; "
        "it is truncated or line 2 is wrong",
    )
    absent = listed(sorted(plan.label_rows.difference(labels)))
    refuse(absent, f"label_columns names {absent}, which is none of its rows")
    if features:
        samples = np.array(plan.header)[plan.numeric]
        yield Table(np.array(values).T, samples, np.array(features), labels, "columns", plan.kind)


def _rows(plan: Plan) -> Iterator[tuple[list[str], np.ndarray]]:
    """The rows of data, checked, and their numbers; none in rows that are labels."""
    are_numeric = np.isin(np.arange(len(plan.header)), plan.numeric).tolist()
    for line, row in plan.text.rows():
        if line <= plan.first_line:
            continue
        check_width(plan.text, plan.header, row, line)
        problem = name_problem(row[0])
        refuse(problem, f"line {line}, column 1: {problem}")
        if row[0] in plan.label_rows:
            yield row, np.empty(0)
            continue
        numbers = read_numbers(list(compress(row, are_numeric)))
        if numbers is None:
            raise _wrong_number(plan, row, f"line {line}")
        for j in plan.text_columns:
            if problem := text_problem(row[j]):
                cell = f"line {line}, column {quoted(plan.header[j])}: {quoted(row[j])}"
                cure = "correct it, or name the column in label_columns or ignore_columns"
                raise TableError(f"{cell} {problem}; {cure}")
        yield row, numbers


def check_width(text: TextFile, header: list[str], row: list[str], line: int) -> None:
    """Refuse a row with fewer or more cells than the header."""
    if len(row) == len(header):
        return
    hint = "check the line"
    if len(row) == len(header) + 1 and not row[-1]:
        hint = "the line ends with a separator too many"
    elif len(row) == len(header) + 1 and text.dialect.delimiter == "\t":
        hint = "if R wrote the file, write it with col.names=NA so that the first column has a name"
    elif text.dialect.delimiter == ",":
        hint = "check the line for decimal commas and unquoted commas"
    raise TableError(f"line {line} has {len(row)} cells, the header has {len(header)}; {hint}")


def _wrong_number(plan: Plan, row: list[str], where: str) -> TableError:
    """Name the first cell of a row that is neither a number nor missing."""
    j = next(j for j in plan.numeric if number_problem(row[j]))
    cure = "a column that is no feature goes into label_columns or ignore_columns"
    if plan.orientation == "columns":
        cure = (
            f"a column that is no sample goes into ignore_columns ({quoted(plan.header[j])}), "
            f"a row that is a label into label_columns ({quoted(row[0])})"
        )
    cell = f"{where}, column {quoted(plan.header[j])}: {quoted(row[j])}"
    return TableError(f"{cell} is not a usable number; {number_problem(row[j])}; {cure}")
