"""CSV and TSV: the columns of the file, its rows as blocks of numbers, and where a file goes wrong.

PyArrow parses and converts. It refuses ragged rows and text in numeric columns, but names neither line nor
column, and it accepts spellings of NaN and infinity that are not wanted here; so when something is wrong the
file is passed over a second time, cell by cell, to name the place.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from suquan.io import _budget
from suquan.io._cells import MISSING, is_number, is_suspect, label_array, number_problem
from suquan.io._errors import TableError, file_errors, listed, one_line, quoted, require
from suquan.io._source import Block, ReadOptions, Source
from suquan.io._table import name_problem, repeated_names
from suquan.io._text import TextFile

ROWS_LOOKED_AT = 100  # rows in which a column must show its first value to count as text
MEGABYTE = 2**20
NAME_HEADERS = {
    "",
    "name",
    "names",
    "sample",
    "samples",
    "feature",
    "features",
    "gene",
    "id",
    "id_ref",
}


@dataclass(frozen=True)
class Plan:
    """How the columns of a delimited file are read; the first column holds the names of the rows."""

    text: TextFile
    header: list[str]
    n_header_lines: int
    orientation: str
    numeric: list[int]
    text_columns: list[int]  # found to be text: must stay text
    label_columns: list[int]  # asked for as labels: anything goes
    label_rows: frozenset[str] = frozenset()
    extra_rows: int = 0  # rows after the header that are no data (GCT 1.3)
    line_bytes: int = MEGABYTE

    @property
    def strings(self) -> list[int]:
        """Columns read as text, besides the names."""
        return sorted(self.text_columns + self.label_columns)


# ------------------------------------------------------------------------------------------------ opening


def open_delimited(text: TextFile, kind: str, options: ReadOptions) -> Source:
    """Open a CSV or TSV file."""
    header, n_header_lines = read_header(text)
    orientation = choose_orientation(text, header, options)
    plan = plan_columns(text, header, n_header_lines, orientation, options)
    return source_of_plan(plan, kind)


def source_of_plan(plan: Plan, kind: str) -> Source:
    """The rows of a planned file as a source."""
    source = Source(
        path=plan.text.path,
        kind=kind,
        orientation=plan.orientation,
        column_names=[plan.header[j] for j in plan.numeric],
        blocks=lambda n_rows: iter_blocks(plan, n_rows, source.column_labels),
    )
    return source


def read_header(text: TextFile) -> tuple[list[str], int]:
    """Cells of the header and the number of lines up to it."""
    for number, header in text.rows():
        _check_header(text, header, number)
        return header, number
    raise TableError(f"{text.path}: holds no header; a table has a header and rows")


def _check_header(text: TextFile, header: list[str], line: int) -> None:
    if len(header) < 2:
        raise TableError(f"{text.path}: line {line} {_one_cell_hint(text, header[0])}")
    for j, name in enumerate(header):
        problem = None if j == 0 and not name else name_problem(name)
        if problem is not None:
            raise TableError(f"{text.path}: header, column {j + 1}: {problem}")
    repeated = repeated_names(header)
    if repeated:
        raise TableError(
            f"{text.path}: the header has {listed(repeated)} more than once; names must differ"
        )


def _one_cell_hint(text: TextFile, cell: str) -> str:
    wanted = {",": "commas", "\t": "tabs"}[text.delimiter]
    for other, what in {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}.items():
        if other != text.delimiter and other in cell:
            cure = {",": "name it .csv", "\t": "name it .tsv"}.get(
                other, "save it with commas and decimal points"
            )
            return f"is separated by {what}, the name of the file asks for {wanted}; {cure}"
    return (
        f"has one cell ({quoted(cell)}); a table has names in its first column and at least one "
        f"further column, separated by {wanted}"
    )


def choose_orientation(text: TextFile, header: list[str], options: ReadOptions) -> str:
    """Where the samples lie: as asked, by the names of the samples, or in rows."""
    if options.samples != "auto":
        return options.samples
    if options.sample_names is None:
        return "rows"
    rows = len(options.sample_names.intersection(first_column(text)))
    columns = len(options.sample_names.intersection(header[1:]))
    return orientation_by_overlap(text.path, rows, columns, options.sample_names)


def orientation_by_overlap(path, rows: int, columns: int, sample_names: frozenset[str]) -> str:
    """The side on which more of the wanted samples are found."""
    if rows == columns == 0:
        raise TableError(
            f"{path}: none of the {len(sample_names)} wanted samples ({listed(sorted(sample_names), 3)}) "
            "names a row or a column; check that both files use the same sample names"
        )
    if rows == columns:
        raise TableError(
            f"{path}: {rows} of the wanted samples name rows and as many columns; "
            "say where the samples lie (samples='rows' or 'columns')"
        )
    return "rows" if rows > columns else "columns"


def first_column(text: TextFile) -> Iterator[str]:
    """The cells of the first column, without the header."""
    rows = text.rows()
    next(rows, None)
    return (row[0] for _, row in rows)


def matrix_plan(
    text: TextFile, header: list[str], n_header_lines: int, numeric: list[int], extra_rows: int = 0
) -> Plan:
    """The plan for a format that says itself which columns are samples."""
    if not numeric:
        raise TableError(f"{text.path}: there is no column of values")
    _, line_bytes = _find_text(text, header, numeric, labels_allowed=False)
    return Plan(
        text=text,
        header=header,
        n_header_lines=n_header_lines,
        orientation="columns",
        numeric=numeric,
        text_columns=[],
        label_columns=[],
        extra_rows=extra_rows,
        line_bytes=line_bytes,
    )


# --------------------------------------------------------------------------------------- kinds of columns


def plan_columns(
    text: TextFile, header: list[str], n_header_lines: int, orientation: str, options: ReadOptions
) -> Plan:
    """Which columns hold numbers, which text, which are labels or left out."""
    ignored = _find_columns(text, header, options.ignore_columns, "ignore_columns")
    by_rows = orientation == "rows"
    labels = _find_columns(text, header, options.label_columns, "label_columns") if by_rows else []
    data = [j for j in range(1, len(header)) if j not in set(ignored + labels)]
    found, line_bytes = _find_text(text, header, data, by_rows)
    numeric = [j for j in data if j not in set(found)]
    plan = Plan(
        text=text,
        header=header,
        n_header_lines=n_header_lines,
        orientation=orientation,
        numeric=numeric,
        text_columns=found,
        label_columns=labels,
        label_rows=frozenset() if by_rows else frozenset(options.label_columns),
        line_bytes=line_bytes,
    )
    if not numeric:
        raise find_problem(plan) or TableError(f"{text.path}: there is no column of numbers")
    return plan


def _find_columns(text: TextFile, header: list[str], names, option: str) -> list[int]:
    absent = [name for name in names if name not in header[1:]]
    if absent:
        raise TableError(
            f"{text.path}: {option} names {listed(absent)}, which is none of its columns "
            f"({listed(header[1:])})"
        )
    return [header.index(name) for name in names]


def _find_text(
    text: TextFile, header: list[str], columns: list[int], labels_allowed: bool
) -> tuple[list[int], int]:
    """The columns whose first cell that is not missing is text, and the length of the longest line seen."""
    undecided, found, line_bytes = columns, [], 0
    rows = text.rows()
    line, _ = next(rows)
    n_rows = 0
    for line, row in rows:
        _check_width(text, header, row, line)
        _check_first_cell(text, header[0], row[0], line)
        n_rows += 1
        line_bytes = max(line_bytes, sum(map(len, row)) + len(row))
        for j in undecided if labels_allowed else ():
            if row[j] not in MISSING and not is_number(row[j]):
                _refuse_suspect(text, row[j], header[j], line)
                found.append(j)
        undecided = [j for j in undecided if row[j] in MISSING]
        if not undecided or n_rows == ROWS_LOOKED_AT:
            break
    if not n_rows:
        raise TableError(f"{text.path}: holds a header and no rows")
    return found, line_bytes


def _check_first_cell(text: TextFile, header: str, cell: str, line: int) -> None:
    """Refuse a measurement where the name should stand."""
    if header.lower() in NAME_HEADERS or not is_number(cell) or cell.strip().isdigit():
        return
    raise TableError(
        f"{text.path}: line {line}: the first column holds the names of the rows, but {quoted(cell)} is a "
        f"measurement; put names first, or, if these are the names, call the column 'name' instead of "
        f"{quoted(header)}"
    )


def _check_width(text: TextFile, header: list[str], row: list[str], line: int) -> None:
    if len(row) == len(header):
        return
    hint = "check the line"
    if len(row) == len(header) + 1 and not row[-1]:
        hint = "the line ends with a separator too many"
    elif len(row) == len(header) + 1 and text.delimiter == "\t":
        hint = "if R wrote the file, write it with col.names=NA so that the first column has a name"
    elif text.delimiter == ",":
        hint = "check the line for decimal commas and unquoted commas"
    raise TableError(
        f"{text.path}: line {line} has {len(row)} cells, the header has {len(header)}; {hint}"
    )


def _refuse_suspect(text: TextFile, cell: str, column: str, line: int) -> None:
    if not is_suspect(cell):
        return
    raise TableError(
        f"{text.path}: line {line}, column {quoted(column)}: {quoted(cell)} is neither a number nor plain "
        f"text ({number_problem(cell)}); correct it, or name the column in label_columns or ignore_columns"
    )


# ---------------------------------------------------------------------------------------- blocks of values


def iter_blocks(plan: Plan, n_rows: int | None, column_labels: dict) -> Iterator[Block]:
    """Blocks of rows of the file, checked."""
    arrow = require("pyarrow", "io", "reading CSV and TSV files")
    labels: dict[str, list[str]] = {}
    with plan.text.open(plan.n_header_lines) as file, _located(plan, arrow):
        if plan.extra_rows:
            for _ in range(plan.extra_rows):
                file.readline()
        block_bytes = _block_bytes(plan.line_bytes, n_rows)
        parse = _parser(plan, block_bytes)
        for part in plan.text.parts(file, _part_bytes(plan, block_bytes)):
            for batch in parse(part):
                if batch.num_rows:
                    yield _block(plan, batch, labels)
    column_labels.update({name: label_array(cells) for name, cells in labels.items()})
    absent = plan.label_rows.difference(labels)
    if absent:
        raise TableError(
            f"{plan.text.path}: label_columns names {listed(sorted(absent))}, which is none of its rows"
        )


@contextmanager
def _located(plan: Plan, arrow) -> Iterator[None]:
    """Replace the parser's errors by one that names the line and the column."""
    try:
        with file_errors(plan.text.path):
            yield
    except (arrow.ArrowInvalid, arrow.ArrowException, UnicodeDecodeError) as error:
        problem = find_problem(plan)
        if problem is not None:
            raise problem from None
        raise TableError(f"{plan.text.path}: cannot be parsed ({one_line(error)})") from error


def _parser(plan: Plan, block_bytes: int) -> Callable[[memoryview], Iterator]:
    """Function that parses the bytes of whole rows into batches with columns called by their positions.

    PyArrow gets memory of its own. A file of ours it would read, and let go of, in its own threads, which need
    the interpreter for that: Python 3.11 aborts when it ends just then.
    """
    arrow = require("pyarrow", "io", "reading CSV and TSV files")
    arrow_csv = require("pyarrow.csv", "io", "reading CSV and TSV files")
    number = arrow.string() if plan.label_rows else arrow.float64()
    types = {str(j): number for j in plan.numeric}
    types.update({str(j): arrow.string() for j in [0, *plan.strings]})
    reading = arrow_csv.ReadOptions(
        column_names=[str(j) for j in range(len(plan.header))],
        use_threads=False,
        block_size=block_bytes,
    )
    parsing = arrow_csv.ParseOptions(
        delimiter=plan.text.delimiter,
        quote_char='"' if plan.text.quoted else False,
        newlines_in_values=plan.text.quoted,
    )
    conversion = arrow_csv.ConvertOptions(
        column_types=types,
        include_columns=[str(j) for j in [0, *plan.strings, *plan.numeric]],
        null_values=list(MISSING),
        strings_can_be_null=False,
    )

    def parse(part: memoryview) -> Iterator:
        memory = arrow.allocate_buffer(len(part))
        memoryview(memory).cast("B")[:] = part
        yield from arrow_csv.open_csv(arrow.BufferReader(memory), reading, parsing, conversion)

    return parse


def _block_bytes(line_bytes: int, n_rows: int | None) -> int:
    """Bytes parsed at a time: 1 to 32 MiB, but several lines at least; a line must fit in two such parts."""
    most = 8 * _budget.VALUES
    wanted = most if n_rows is None else n_rows * line_bytes
    return max(MEGABYTE, 8 * line_bytes, min(wanted, most))


def _part_bytes(plan: Plan, block_bytes: int) -> int:
    """Bytes read at a time: a block, or more where there are so many columns that a parser takes long to make.

    It takes 7 us for a column, as long as to parse 350 bytes.
    """
    return max(block_bytes, min(1000 * len(plan.header), 8 * _budget.VALUES))


def _block(plan: Plan, batch, labels: dict[str, list[str]]) -> Block:
    names = batch.column(0).to_pylist()
    strings = {plan.header[j]: batch.column(1 + i).to_pylist() for i, j in enumerate(plan.strings)}
    columns = batch.columns[1 + len(plan.strings) :]
    if plan.label_rows:
        names, columns = _take_label_rows(plan, names, columns, labels)
    values = _numbers(columns, len(names))
    if values is None or not _names_and_text_are_fine(plan, names, strings):
        raise find_problem(plan) or TableError(f"{plan.text.path}: cannot be parsed")
    return Block(names, values, dict(strings))


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
    arrow = require("pyarrow", "io", "reading CSV and TSV files")
    compute = require("pyarrow.compute", "io", "reading CSV and TSV files")
    for i, name in enumerate(names):
        if name in plan.label_rows:
            if name in labels:
                raise TableError(f"{plan.text.path}: the row {quoted(name)} occurs more than once")
            labels[name] = [column[i].as_py() for column in columns]
    rows = arrow.array([i for i, name in enumerate(names) if name not in plan.label_rows])
    missing = arrow.array(MISSING)
    numbers = []
    for column in columns:
        cells = compute.utf8_trim(column.take(rows.cast(arrow.int64())), " \t")
        known = compute.if_else(compute.is_in(cells, missing), None, cells)
        numbers.append(known.cast(arrow.float64()))
    return [names[i] for i in rows.to_pylist()], numbers


def _names_and_text_are_fine(plan: Plan, names: list[str], strings: dict[str, list[str]]) -> bool:
    if any(name_problem(name) for name in names):
        return False
    found = [strings[plan.header[j]] for j in plan.text_columns]
    return not any(_is_not_text(cell) for cells in found for cell in cells)


def _is_not_text(cell: str) -> bool:
    return cell not in MISSING and (is_number(cell) or is_suspect(cell))


# ------------------------------------------------------------------------------------- where it goes wrong


def find_problem(plan: Plan) -> TableError | None:
    """The first thing that is wrong with the file, with its line and column."""
    try:
        for line, row in _data_rows(plan):
            _check_width(plan.text, plan.header, row, line)
            _check_row(plan, row, line)
    except TableError as problem:
        return problem
    return None


def _data_rows(plan: Plan) -> Iterator[tuple[int, list[str]]]:
    for i, numbered in enumerate(plan.text.rows()):
        if i > plan.extra_rows:
            yield numbered


def _check_row(plan: Plan, row: list[str], line: int) -> None:
    where = f"{plan.text.path}: line {line}"
    problem = name_problem(row[0])
    if problem is not None:
        raise TableError(f"{where}, column 1: {problem}")
    if row[0] in plan.label_rows:
        return
    for j in plan.numeric:
        problem = number_problem(row[j])
        if problem is not None:
            column = f"column {quoted(plan.header[j])}"
            advice = _advice(plan, row[0], plan.header[j])
            raise TableError(
                f"{where}, {column}: {quoted(row[j])} is not a usable number; {problem}{advice}"
            )
    for j in plan.text_columns:
        if _is_not_text(row[j]):
            raise TableError(
                f"{where}, column {quoted(plan.header[j])}: {quoted(row[j])} in a column of text; correct it, "
                "or name the column in label_columns or ignore_columns"
            )


def _advice(plan: Plan, row_name: str, column: str) -> str:
    if plan.orientation == "columns":
        return (
            f"; a column that is no sample goes into ignore_columns ({quoted(column)}), a row that is a "
            f"label into label_columns ({quoted(row_name)})"
        )
    return "; a column that is no feature goes into label_columns or ignore_columns"
