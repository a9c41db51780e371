"""The table of layers in CONTRIBUTING.md is true of the imports of the package.

Each row names places (modules and packages under ``suquan``) and what these may import: places in backticks,
"all below", "… and below", and other packages by name. Imports at the top of a module point to rows further
down; those inside functions, which run later, may point up where the row names the place.
"""

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import suquan

PACKAGE = Path(suquan.__file__).parent
TABLE = "the table under “Layers” in CONTRIBUTING.md"
# Names of packages in the table, where they are not those of their modules.
PUBLISHED = {"sklearn": "scikit-learn"}
EVERYWHERE = {"numpy", "suquan"}
# The package itself: it has the public names, and loads them when they are asked for.
FACADE = {"__init__", "__main__"}


class Row(NamedTuple):
    """One row of the table: its number from the top, its places, the text of its imports."""

    number: int
    places: list
    imports: str


class Import(NamedTuple):
    """One import: where it stands, the dotted name that it loads, whether only when a function runs."""

    where: str
    name: str
    late: bool


def read_table():
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Layers")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    rows = []
    for number, line in enumerate(lines):
        places, _, imports = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append(Row(number, re.findall(r"`([^`]+)`", places), imports))
    return rows


def modules():
    """Dotted name inside the package, and path, of every module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in FACADE:
            yield ".".join(parts), path


def imports_of(module, path):
    """All imports of one module, those inside functions too."""
    tree = ast.parse(path.read_text("utf-8"))
    late = {
        node
        for outer in ast.walk(tree)
        if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        or (isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.unparse(outer.test))
        for node in ast.walk(outer)
    }
    package = ["suquan", *module.split(".")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            names = [".".join([*base, node.module or "", alias.name]) for alias in node.names]
        else:
            continue
        where = f"src/suquan/{module.replace('.', '/')}.py, line {node.lineno}"
        for name in names:
            yield Import(where, name.replace("..", "."), node in late)


def place_of(name):
    """The place of a dotted name inside the package: the longest one in the table that it begins with."""
    parts = name.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in ROW_OF), parts[0])


def is_inside(name):
    """Whether a dotted name is a module of the package, and not one of its public names."""
    parts = name.split(".")
    if parts[0] != "suquan" or len(parts) < 2:
        return False
    return (PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").is_file()


def allowed_places(row, rows):
    """Places that a row may import, its own among them."""
    allowed = set(row.places) | set(re.findall(r"`([^`]+)`", row.imports))
    starts = [row.number] if "all below" in row.imports else []
    for place in re.findall(r"`([^`]+)` and below", row.imports):
        starts += [other.number for other in rows if place in other.places]
    for start in starts:
        allowed |= {place for other in rows[start:] for place in other.places}
    return allowed


ROWS = read_table()
ROW_OF = {place: row for row in ROWS for place in row.places}


def test_every_module_has_one_row_and_every_row_its_module():
    there = {name for name, _ in modules()} | {name.partition(".")[0] for name, _ in modules()}
    named = [place for row in ROWS for place in row.places]
    problems = [f"`{name}` is in no row" for name in sorted(there) if place_of(name) not in ROW_OF]
    problems += [
        f"`{place}` is there, but not in src/suquan" for place in named if place not in there
    ]
    problems += [f"`{place}` is there twice" for place in {n for n in named if named.count(n) > 1}]
    problems += [
        f"{row.places} may import `{name}`, which has no row"
        for row in ROWS
        for name in re.findall(r"`([^`]+)`", row.imports)
        if name not in ROW_OF
    ]
    if problems:
        pytest.fail("\n".join([f"{TABLE} is not true:", *problems]), pytrace=False)


@pytest.mark.parametrize("place", sorted({place_of(name) for name, _ in modules()}))
def test_imports_are_those_of_the_table(place):
    row = ROW_OF.get(place)
    if row is None:
        pytest.fail(f"`{place}` is in no row of {TABLE}.", pytrace=False)
    allowed = allowed_places(row, ROWS)
    problems = []
    files = [(name, path) for name, path in modules() if place_of(name) == place]
    for where, name, late in (found for file in files for found in imports_of(*file)):
        package = name.partition(".")[0]
        if is_inside(name):
            target = place_of(name.removeprefix("suquan."))
            if target not in allowed:
                problems.append(f"{where}: imports `{target}`, which its row does not name")
            elif not late and ROW_OF[target].number < row.number:
                problems.append(f"{where}: imports `{target}`, whose row is above")
        elif package not in EVERYWHERE | set(sys.stdlib_module_names):
            published = PUBLISHED.get(package, package)
            if published.lower() not in row.imports.lower():
                problems.append(f"{where}: imports {published}, which its row does not name")
    if problems:
        lines = [f"`{place}` is not as {TABLE} has it:", *dict.fromkeys(problems)]
        pytest.fail("\n".join([*lines, "Mend the import, or the table."]), pytrace=False)
