"""CSV and TSV: which columns of the file are names, values and labels; its rows in blocks of samples.

One pass of the standard library's strict reader, so that whatever is wrong is named by its line and column.
`reading` opens files here; `_headed` has its tables read here, and `labels` asks for header and width.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import compress, islice

import numpy as np

from suquan.io._errors import TableError, listed, quoted, refuse
from suquan.io._source import ReadOptions, Source, check_named, choose_orientation, rows_at_once
from suquan.io._table import Table, name_problem, repeated_names
from suquan.io._text import (
    DELIMITERS,
    MISSING,
    TextFile,
    is_number,
    label_array,
    number_problem,
    read_numbers,
    text_array,
    text_problem,
)

ROWS_LOOKED_AT = 100  # rows in which a column must show its first value to count as text
NAME_HEADERS = ("name", "names", "sample", "samples", "feature", "features", "gene", "id", "id_ref")
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


@dataclass
class Plan:
    """How the columns of a delimited file are read; the first column holds the names of the rows."""

    text: TextFile
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


def open_delimited(text: TextFile, options: ReadOptions) -> Source:
    """Open a CSV or TSV file."""
    header, first_line = read_header(text)
    options = options.in_terms_of(header)
    row_names = (row[0] for _, row in islice(text.rows(), 1, None))
    side, why = choose_orientation(options, header, lambda: row_names)
    check_named(options, "ignore_columns", header[1:])
    first_rows = list(islice(text.rows(), 1, 1 + ROWS_LOOKED_AT))
    _refuse_numbers_as_names(header[0], first_rows)
    numeric = [j for j, name in enumerate(header) if j and name not in options.ignore_columns]
    if side == "columns":
        plan = Plan(
            text, header, first_line, side, numeric, label_rows=frozenset(options.label_columns)
        )
    else:
        check_named(options, "label_columns", header[1:])
        labels = [header.index(name) for name in options.label_columns]
        texts = [j for j in numeric if j not in labels and _is_text(j, first_rows)]
        numeric = [j for j in numeric if j not in {*labels, *texts}]
        plan = Plan(text, header, first_line, side, numeric, texts, labels)
    if not plan.numeric:
        list(_rows(plan))  # what is wrong with a row tells more
        raise TableError("there is no column of numbers")
    read = samples_in_columns if side == "columns" else _samples_in_rows
    return Source(text.kind, side, partial(read, plan), why)


def read_header(text: TextFile) -> tuple[list[str], int]:
    """Cells of the header and the number of its line."""
    line, header = next(text.rows(), (0, []))
    refuse(not header, "holds no header; a table has a header and rows")
    if len(header) < 2:
        raise TableError(f"line {line} {_one_cell_hint(DELIMITERS[text.kind], header[0])}")
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


def _refuse_numbers_as_names(heading: str, first_rows: list[tuple[int, list[str]]]) -> None:
    """Refuse a measurement as the first name, unless the heading says that it is a name."""
    for line, (name, *_) in first_rows[:1]:
        refuse(
            heading
            and heading.lower() not in NAME_HEADERS
            and is_number(name)
            and not name.strip().isdigit(),
            f"line {line}: the first column holds the names of the rows, but {quoted(name)} is a "
            "measurement; put names first, or, if these are the names, call the column 'name' "
            f"instead of {quoted(heading)}",
        )


def _is_text(j: int, rows: list[tuple[int, list[str]]]) -> bool:
    """Tell whether the first cell of a column that is not missing is no number."""
    cells = (row[j] for _, row in rows if j < len(row) and row[j] not in MISSING)
    return not is_number(next(cells, "0"))


# ---------------------------------------------------------------------------------------- blocks of values


def _samples_in_rows(plan: Plan) -> Iterator[Table]:
    """Read samples, checked, in blocks of usual size."""
    rows, step = _rows(plan), rows_at_once(len(plan.numeric))
    features, strings = np.array(plan.header)[plan.numeric], plan.text_columns + plan.label_columns
    while block := list(islice(rows, step)):
        texts = {j: text_array([row[j] for row, _ in block]) for j in sorted(strings)}
        yield Table(
            np.array([numbers for _, numbers in block]),
            np.array([row[0] for row, _ in block]),
            features,
            {plan.header[j]: column for j, column in texts.items()},
            "rows",
            plan.text.kind,
        )


def samples_in_columns(plan: Plan) -> Iterator[Table]:
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
        kind, X = plan.text.kind, np.array(values).T
        yield Table(X, samples, np.array(features), labels, "columns", kind)


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
            raise _wrong_number(plan, row, line)
        for j in plan.text_columns:
            if problem := text_problem(row[j]):
                cure = "correct it, or name the column in label_columns or ignore_columns"
                raise _wrong_cell(plan, row, line, j, f"{problem}; {cure}")
        yield row, numbers


def check_width(text: TextFile, header: list[str], row: list[str], line: int) -> None:
    """Refuse a row with fewer or more cells than the header."""
    if len(row) == len(header):
        return
    hint, is_longer = "check the line", len(row) == len(header) + 1
    if is_longer and not row[-1]:
        hint = "the line ends with a separator too many"
    elif is_longer and DELIMITERS[text.kind] == "\t":
        hint = "if R wrote the file, write it with col.names=NA so that the first column has a name"
    elif DELIMITERS[text.kind] == ",":
        hint = "check the line for decimal commas and unquoted commas"
    raise TableError(f"line {line} has {len(row)} cells, the header has {len(header)}; {hint}")


def _wrong_number(plan: Plan, row: list[str], line: int) -> TableError:
    """Name the first cell of a row that is neither a number nor missing."""
    j = next(j for j in plan.numeric if number_problem(row[j]))
    cure = "a column that is no feature goes into label_columns or ignore_columns"
    if plan.orientation == "columns":
        cure = (
            f"a column that is no sample goes into ignore_columns ({quoted(plan.header[j])}), "
            f"a row that is a label into label_columns ({quoted(row[0])})"
        )
    problem = f"is not a usable number; {number_problem(row[j])}; {cure}"
    return _wrong_cell(plan, row, line, j, problem)


def _wrong_cell(plan: Plan, row: list[str], line: int, j: int, problem: str) -> TableError:
    return TableError(f"line {line}, column {quoted(plan.header[j])}: {quoted(row[j])} {problem}")
