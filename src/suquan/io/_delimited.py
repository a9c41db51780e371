"""CSV and TSV: the columns of the file, its rows as blocks of numbers, and where a file goes wrong.

PyArrow parses and converts. It refuses ragged rows and text in numeric columns, but names neither line nor
column, and it accepts spellings of NaN and infinity that are not wanted here; so when something is wrong the
file is passed over a second time, cell by cell, to name the place.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice

import numpy as np

from suquan.io._cells import MISSING, is_number, is_suspect, label_array, number_problem
from suquan.io._errors import TableError, listed, one_line, quoted, refuse, require
from suquan.io._source import Block, ReadOptions, Source, choose_orientation
from suquan.io._table import name_problem, repeated_names
from suquan.io._text import TextFile

WISH = "reading CSV and TSV files"
ROWS_LOOKED_AT = 100  # rows in which a column must show its first value to count as text
MOST_BYTES = 2**31 - 1  # so that PyArrow parses every part at once
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
    options = options.in_terms_of(header)
    orientation, why = choose_orientation(
        options, header, lambda: (row[0] for _, row in islice(text.rows(), 1, None))
    )
    for option in ("ignore_columns", "label_columns")[: 2 if orientation == "rows" else 1]:
        absent = [name for name in getattr(options, option) if name not in header[1:]]
        where = f"which is none of its columns ({listed(header[1:])})"
        refuse(absent, f"{option} names {listed(absent)}, {where}")
    numeric = [j for j, name in enumerate(header) if j and name not in options.ignore_columns]
    plan = Plan(text, header, first_line, orientation, numeric)
    _check_names(plan)
    if orientation == "rows":
        plan.label_columns = [header.index(name) for name in options.label_columns]
        plan.text_columns = _find_text(plan, set(numeric).difference(plan.label_columns))
        plan.numeric = [j for j in numeric if j not in set(plan.strings)]
    else:
        plan.label_rows = frozenset(options.label_columns)
    if not plan.numeric:
        raise find_problem(plan) or TableError("there is no column of numbers")
    return replace(source_of_plan(plan, kind, {}), why=why)


def source_of_plan(plan: Plan, kind: str, labels: dict[str, np.ndarray]) -> Source:
    """The rows of a planned file as a source; rows that are labels come to `labels` in a pass."""
    refuse(not plan.numeric, "there is no column of values")
    names = [plan.header[j] for j in plan.numeric]
    blocks = partial(iter_blocks, plan, labels)
    return Source(plan.text.path, kind, plan.orientation, names, blocks, labels)


def read_header(text: TextFile) -> tuple[list[str], int]:
    """Cells of the header and the number of its line."""
    line, header = next(text.rows(), (0, []))
    refuse(not header, "holds no header; a table has a header and rows")
    if len(header) < 2:
        raise TableError(f"line {line} {_one_cell_hint(text, header[0])}")
    for j, name in enumerate(header):
        problem = name_problem(name) if j or name else None
        refuse(problem, f"header, column {j + 1}: {problem}")
    repeated = listed(repeated_names(header))
    refuse(repeated, f"the header has {repeated} more than once; names must differ")
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


def _check_names(plan: Plan) -> None:
    """Refuse a measurement as the first name, unless the heading says that it is a name."""
    line, (name, *_) = next(islice(plan.text.rows(), 1, None), (0, [""]))
    heading = plan.header[0]
    is_called = not heading or heading.lower() in NAME_HEADERS
    refuse(
        not is_called and is_number(name) and not name.strip().isdigit(),
        f"line {line}: the first column holds the names of the rows, but {quoted(name)} is a "
        "measurement; put names first, or, if these are the names, call the column 'name' "
        f"instead of {quoted(heading)}",
    )


def _find_text(plan: Plan, undecided: Iterable[int]) -> list[int]:
    """The columns whose first cell that is not missing is no number."""
    found = []
    for _, row in islice(plan.text.rows(), 1, 1 + ROWS_LOOKED_AT):
        cells = {j: row[j] for j in undecided if j < len(row)}
        found += [j for j, cell in cells.items() if cell not in MISSING and not is_number(cell)]
        undecided = [j for j, cell in cells.items() if cell in MISSING]
        if not undecided:
            break
    return sorted(found)


def check_width(text: TextFile, header: list[str], row: list[str], line: int) -> None:
    """Refuse a row with fewer or more cells than the header."""
    hint = "check the line"
    if len(row) == len(header) + 1 and not row[-1]:
        hint = "the line ends with a separator too many"
    elif len(row) == len(header) + 1 and text.delimiter == "\t":
        hint = "if R wrote the file, write it with col.names=NA so that the first column has a name"
    elif text.delimiter == ",":
        hint = "check the line for decimal commas and unquoted commas"
    cells = f"line {line} has {len(row)} cells, the header has {len(header)}"
    refuse(len(row) != len(header), f"{cells}; {hint}")


# ---------------------------------------------------------------------------------------- blocks of values


def iter_blocks(plan: Plan, row_labels: dict) -> Iterator[Block]:
    """Blocks of rows of the file, checked; at the end the rows that are labels are put into `row_labels`."""
    arrow, arrow_csv = require("pyarrow", "io", WISH), require("pyarrow.csv", "io", WISH)
    options = cache(partial(_parser_options, plan))
    labels: dict[str, list[str]] = {}
    count = 0
    try:
        for part in plan.text.parts(plan.first_line):
            # A thread of PyArrow's may be the last to let go of the memory, so PyArrow owns it.
            memory = arrow.allocate_buffer(len(part))
            memoryview(memory).cast("B")[:] = part
            has_quotes = b'"' in part
            del part
            for batch in arrow_csv.open_csv(arrow.BufferReader(memory), *options(has_quotes)):
                count += batch.num_rows
                block = _block(plan, batch, labels)
                if len(block.names):
                    yield block
    except TableError:
        raise
    except (ValueError, OSError, KeyError, NotImplementedError) as error:
        # The parser names neither line nor column.
        unknown = TableError(f"cannot be parsed ({one_line(error)})")
        raise find_problem(plan) or unknown from error
    refuse(
        plan.announced_rows not in (None, count),
        f"line 2 announces {plan.announced_rows} features, the file has {count}; "
        "it is truncated or line 2 is wrong",
    )
    row_labels.update({name: label_array(cells) for name, cells in labels.items()})
    absent = listed(sorted(plan.label_rows.difference(labels)))
    refuse(absent, f"label_columns names {absent}, which is none of its rows")


def _parser_options(plan: Plan, has_quotes: bool) -> tuple:
    """PyArrow's options of reading, parsing and converting; columns are called by their positions."""
    arrow, arrow_csv = require("pyarrow", "io", WISH), require("pyarrow.csv", "io", WISH)
    number = arrow.string() if plan.label_rows else arrow.float64()
    texts = [0, *plan.strings]
    types = dict.fromkeys(map(str, texts), arrow.string())
    types |= dict.fromkeys(map(str, plan.numeric), number)
    every = [str(j) for j in range(len(plan.header))]
    quotes = has_quotes and plan.text.quoted
    return (
        arrow_csv.ReadOptions(column_names=every, use_threads=False, block_size=MOST_BYTES),
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
    numbers = batch.select(list(range(1 + len(strings), batch.num_columns)))
    if plan.label_rows:
        names, numbers = _take_label_rows(plan, names, numbers, labels)
    values = numbers.to_tensor(null_to_nan=True).to_numpy()
    n_missing = values.size - int(np.isfinite(values).sum())
    # A cell that spells infinity or an unknown NaN is not finite and no null.
    wrong = n_missing and n_missing != sum(column.null_count for column in numbers.columns)
    texts = (cell for j in plan.text_columns for cell in strings[plan.header[j]])
    if wrong or any(map(name_problem, names)) or any(map(_is_not_text, texts)):
        raise find_problem(plan) or TableError("cannot be parsed")
    return Block(np.array(names), values, {name: np.array(c) for name, c in strings.items()})


def _take_label_rows(plan: Plan, names: list[str], cells, labels: dict[str, list[str]]):
    """Take the label rows out of a block read as text, and convert the others."""
    arrow, compute = require("pyarrow", "io", WISH), require("pyarrow.compute", "io", WISH)
    missing = arrow.array(MISSING)
    for i, name in enumerate(names):
        if name in plan.label_rows:
            refuse(name in labels, f"the row {quoted(name)} occurs more than once")
            labels[name] = [column[i].as_py() for column in cells.columns]
    rows = [i for i, name in enumerate(names) if name not in plan.label_rows]
    numbers = []
    for column in cells.take(np.array(rows, dtype=np.int64)).columns:
        trimmed = compute.utf8_trim(column, " \t")
        known = compute.if_else(compute.is_in(trimmed, missing), None, trimmed)
        numbers.append(known.cast("float64"))
    return [names[i] for i in rows], arrow.record_batch(numbers, cells.schema.names)


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
    refuse(problem, f"{where}, column 1: {problem}")
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
        problem = "in a column of text"
        if is_suspect(row[j]) and not is_number(row[j]):
            problem = f"is neither a number nor plain text ({number_problem(row[j])})"
        advice = "correct it, or name the column in label_columns or ignore_columns"
        cell = f"column {quoted(plan.header[j])}: {quoted(row[j])}"
        refuse(_is_not_text(row[j]), f"{where}, {cell} {problem}; {advice}")
