"""CSV and TSV: the columns of the file, its rows as blocks of numbers, and where a file goes wrong.

PyArrow parses and converts. It refuses ragged rows and text in numeric columns, but names neither line nor
column, and it accepts spellings of NaN and infinity that are not wanted here; so when something is wrong the
file is passed over a second time, cell by cell, to name the place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from suquan.io._cells import MISSING, is_number, is_suspect, label_array, number_problem
from suquan.io._errors import TableError, listed, one_line, quoted, require
from suquan.io._source import Block, ReadOptions, Source, choose_orientation
from suquan.io._table import name_problem, repeated_names
from suquan.io._text import TextFile

WISH = "reading CSV and TSV files"
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
    text_columns: list[int]  # found to be text: must stay text
    label_columns: list[int]  # asked for as labels: anything goes
    label_rows: frozenset[str] = frozenset()
    extra_rows: int = 0  # rows after the header that are no data (GCT 1.3)
    announced_rows: int | None = None  # rows of data that there must be (GCT)

    @property
    def strings(self) -> list[int]:
        """Columns read as text, besides the names."""
        return sorted(self.text_columns + self.label_columns)


# ------------------------------------------------------------------------------------------------ opening


def open_delimited(text: TextFile, kind: str, options: ReadOptions) -> Source:
    """Open a CSV or TSV file."""
    header, first_line = read_header(text)
    row_names = partial(text.row_names, first_line)
    orientation, why = choose_orientation(options, header, row_names)
    ignored = _find_columns(text, header, options.ignore_columns, "ignore_columns")
    by_rows = orientation == "rows"
    labels = _find_columns(text, header, options.label_columns, "label_columns") if by_rows else []
    data = [j for j in range(1, len(header)) if j not in {*ignored, *labels}]
    found = _find_text(text, header, data, by_rows)
    numeric = [j for j in data if j not in set(found)]
    label_rows = frozenset() if by_rows else frozenset(options.label_columns)
    plan = Plan(text, header, first_line, orientation, numeric, found, labels, label_rows)
    if not numeric:
        raise find_problem(plan) or TableError("there is no column of numbers")
    return replace(source_of_plan(plan, kind, {}), why=why)


def plan_matrix(
    text: TextFile, header: list[str], numeric: list[int], line: int, extra_rows: int = 0
) -> Plan:
    """The plan for a format that says itself which columns are samples; `line` is that of the header."""
    if not numeric:
        raise TableError("there is no column of values")
    _find_text(text, header, numeric, labels_allowed=False)
    return Plan(text, header, line + extra_rows, "columns", numeric, [], [], extra_rows=extra_rows)


def source_of_plan(plan: Plan, kind: str, labels: dict[str, np.ndarray]) -> Source:
    """The rows of a planned file as a source; rows that are labels come to `labels` in a pass."""
    names = [plan.header[j] for j in plan.numeric]
    blocks = partial(iter_blocks, plan, labels)
    return Source(plan.text.path, kind, plan.orientation, names, blocks, labels)


def read_header(text: TextFile) -> tuple[list[str], int]:
    """Cells of the header and the number of its line."""
    line, header = next(text.rows(), (0, []))
    if not header:
        raise TableError("holds no header; a table has a header and rows")
    if len(header) < 2:
        raise TableError(f"line {line} {_one_cell_hint(text, header[0])}")
    for j, name in enumerate(header):
        problem = None if j == 0 and not name else name_problem(name)
        if problem is not None:
            raise TableError(f"header, column {j + 1}: {problem}")
    repeated = listed(repeated_names(header))
    if repeated:
        raise TableError(f"the header has {repeated} more than once; names must differ")
    return header, line


def _one_cell_hint(text: TextFile, cell: str) -> str:
    wanted = SEPARATORS[text.delimiter]
    for other, what in SEPARATORS.items():
        if other != text.delimiter and other in cell:
            cures = {",": "name it .csv", "\t": "name it .tsv"}
            cure = cures.get(other, "save it with commas and decimal points")
            return f"is separated by {what}, the name of the file asks for {wanted}; {cure}"
    return (
        f"has one cell ({quoted(cell)}); a table has names in its first column and at least one "
        f"further column, separated by {wanted}"
    )


def _find_columns(text: TextFile, header: list[str], names, option: str) -> list[int]:
    absent = [name for name in names if name not in header[1:]]
    if absent:
        raise TableError(
            f"{option} names {listed(absent)}, which is none of its columns ({listed(header[1:])})"
        )
    return [header.index(name) for name in names]


def _find_text(
    text: TextFile, header: list[str], columns: list[int], labels_allowed: bool
) -> list[int]:
    """The columns whose first cell that is not missing is text."""
    undecided, found, line = columns, [], 0
    for line, row in islice(text.rows(), 1, 1 + ROWS_LOOKED_AT):
        check_width(text, header, row, line)
        is_called = not header[0] or header[0].lower() in NAME_HEADERS
        if not is_called and is_number(row[0]) and not row[0].strip().isdigit():
            raise TableError(
                f"line {line}: the first column holds the names of the rows, but {quoted(row[0])} is a "
                "measurement; put names first, or, if these are the names, call the column 'name' "
                f"instead of {quoted(header[0])}"
            )
        for j in undecided if labels_allowed else ():
            if row[j] not in MISSING and not is_number(row[j]):
                if is_suspect(row[j]):
                    problem = f"is neither a number nor plain text ({number_problem(row[j])})"
                    raise TableError(
                        f"line {line}, column {quoted(header[j])}: {quoted(row[j])} {problem}; "
                        "correct it, or name the column in label_columns or ignore_columns"
                    )
                found.append(j)
        undecided = [j for j in undecided if row[j] in MISSING]
        if not undecided:
            break
    if not line:
        raise TableError("holds a header and no rows")
    return found


def check_width(text: TextFile, header: list[str], row: list[str], line: int) -> None:
    """Refuse a row with fewer or more cells than the header."""
    if len(row) == len(header):
        return
    hint = "check the line"
    if len(row) == len(header) + 1 and not row[-1]:
        hint = "the line ends with a separator too many"
    elif len(row) == len(header) + 1 and text.delimiter == "\t":
        hint = "if R wrote the file, write it with col.names=NA so that the first column has a name"
    elif text.delimiter == ",":
        hint = "check the line for decimal commas and unquoted commas"
    cells = f"line {line} has {len(row)} cells, the header has {len(header)}"
    raise TableError(f"{cells}; {hint}")


# ---------------------------------------------------------------------------------------- blocks of values


def iter_blocks(plan: Plan, row_labels: dict) -> Iterator[Block]:
    """Blocks of rows of the file, checked; at the end the rows that are labels are put into `row_labels`."""
    arrow, arrow_csv = require("pyarrow", "io", WISH), require("pyarrow.csv", "io", WISH)
    labels: dict[str, list[str]] = {}
    count = 0
    with _located(plan):
        for part in plan.text.parts(plan.first_line):
            # A thread of PyArrow's may be the last to let go of the memory, so PyArrow owns it.
            memory = arrow.allocate_buffer(len(part))
            memoryview(memory).cast("B")[:] = part
            options = _parser_options(plan, len(part), b'"' in part)
            del part
            for batch in arrow_csv.open_csv(arrow.BufferReader(memory), *options):
                count += batch.num_rows
                block = _block(plan, batch, labels)
                if len(block.names):
                    yield block
    if plan.announced_rows not in (None, count):
        raise TableError(
            f"line 2 announces {plan.announced_rows} features, the file has {count}; "
            "it is truncated or line 2 is wrong"
        )
    row_labels.update({name: label_array(cells) for name, cells in labels.items()})
    absent = listed(sorted(plan.label_rows.difference(labels)))
    if absent:
        raise TableError(f"label_columns names {absent}, which is none of its rows")


@contextmanager
def _located(plan: Plan) -> Iterator[None]:
    """Replace the parser's errors by one that names the line and the column."""
    try:
        yield
    except TableError:
        raise
    except (ValueError, OSError, KeyError, NotImplementedError) as error:
        unknown = TableError(f"cannot be parsed ({one_line(error)})")
        raise find_problem(plan) or unknown from error


def _parser_options(plan: Plan, size: int, quotes: bool) -> tuple:
    """PyArrow's options of reading, parsing and converting; columns are called by their positions."""
    arrow, arrow_csv = require("pyarrow", "io", WISH), require("pyarrow.csv", "io", WISH)
    number = arrow.string() if plan.label_rows else arrow.float64()
    texts = [0, *plan.strings]
    types = dict.fromkeys(map(str, texts), arrow.string())
    types |= dict.fromkeys(map(str, plan.numeric), number)
    every = [str(j) for j in range(len(plan.header))]
    quotes = quotes and plan.text.quoted
    return (
        arrow_csv.ReadOptions(column_names=every, use_threads=False, block_size=size),
        arrow_csv.ParseOptions(
            delimiter=plan.text.delimiter,
            quote_char='"' if quotes else False,
            newlines_in_values=quotes,
        ),
        arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=list(MISSING),
            strings_can_be_null=False,
        ),
    )


def _block(plan: Plan, batch, labels: dict[str, list[str]]) -> Block:
    names = batch.column(0).to_pylist()
    strings = {plan.header[j]: batch.column(1 + i).to_pylist() for i, j in enumerate(plan.strings)}
    columns = batch.columns[1 + len(plan.strings) :]
    if plan.label_rows:
        names, columns = _take_label_rows(plan, names, columns, labels)
    values = _numbers(columns, len(names))
    texts = (cell for j in plan.text_columns for cell in strings[plan.header[j]])
    if values is None or any(map(name_problem, names)) or any(map(_is_not_text, texts)):
        raise find_problem(plan) or TableError("cannot be parsed")
    return Block(np.array(names), values, {name: np.array(c) for name, c in strings.items()})


def _numbers(columns: list, n_rows: int) -> np.ndarray | None:
    """The columns side by side; None where a cell spells infinity or an unknown NaN."""
    by_column = np.empty((len(columns), n_rows))
    n_missing = 0
    for j, column in enumerate(columns):
        by_column[j] = column.to_numpy(zero_copy_only=False)
        n_missing += column.null_count
    finite = int(np.isfinite(by_column).sum())
    return by_column.T if finite == by_column.size - n_missing else None


def _take_label_rows(plan: Plan, names: list[str], columns: list, labels: dict[str, list[str]]):
    """Take the label rows out of a block read as text, and convert the others."""
    compute = require("pyarrow.compute", "io", WISH)
    missing = require("pyarrow", "io", WISH).array(MISSING)
    for i, name in enumerate(names):
        if name in plan.label_rows:
            if name in labels:
                raise TableError(f"the row {quoted(name)} occurs more than once")
            labels[name] = [column[i].as_py() for column in columns]
    rows = [i for i, name in enumerate(names) if name not in plan.label_rows]
    numbers = []
    for column in columns:
        cells = compute.utf8_trim(column.take(np.array(rows, dtype=np.int64)), " \t")
        known = compute.if_else(compute.is_in(cells, missing), None, cells)
        numbers.append(known.cast("float64"))
    return [names[i] for i in rows], numbers


def _is_not_text(cell: str) -> bool:
    return cell not in MISSING and (is_number(cell) or is_suspect(cell))


# ------------------------------------------------------------------------------------- where it goes wrong


def find_problem(plan: Plan) -> TableError | None:
    """The first thing that is wrong with the file, with its line and column."""
    try:
        for line, row in islice(plan.text.rows(), 1 + plan.extra_rows, None):
            check_width(plan.text, plan.header, row, line)
            _check_row(plan, row, f"line {line}")
    except TableError as problem:
        return problem
    return None


def _check_row(plan: Plan, row: list[str], where: str) -> None:
    problem = name_problem(row[0])
    if problem is not None:
        raise TableError(f"{where}, column 1: {problem}")
    if row[0] in plan.label_rows:
        return
    for j in plan.numeric:
        problem = number_problem(row[j])
        if problem is not None:
            advice = "a column that is no feature goes into label_columns or ignore_columns"
            if plan.orientation == "columns":
                advice = (
                    f"a column that is no sample goes into ignore_columns ({quoted(plan.header[j])}), "
                    f"a row that is a label into label_columns ({quoted(row[0])})"
                )
            where += f", column {quoted(plan.header[j])}: {quoted(row[j])}"
            raise TableError(f"{where} is not a usable number; {problem}; {advice}")
    for j in plan.text_columns:
        if _is_not_text(row[j]):
            where += f", column {quoted(plan.header[j])}: {quoted(row[j])}"
            advice = "correct it, or name the column in label_columns or ignore_columns"
            raise TableError(f"{where} in a column of text; {advice}")
