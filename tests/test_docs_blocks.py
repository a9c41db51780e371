"""Every page of the documentation runs as it stands: its Python, its commands, and what its transcripts show.

A page runs from top to bottom, in one namespace and in one folder that holds ``table.csv`` (60 patients, 30
genes), ``clinical.csv`` (patient, relapse, months, relapsed, cohort) and ``new_patient.csv``. Blocks of
``python`` and ``sh`` are run; those of ``console`` must say what the page says, but for the last digits of
numbers, and a line ``...`` stands for any lines. Comments on the page say what else is to be known:

    <!-- setup
    Python that runs here and that no reader needs to see
    -->
    <!-- not run: why -->    compiled, its imports tried, the options of its `suquan` commands looked up
    <!-- slow: why -->       from here on the page is run by `make test-slow` alone
    <!-- needs: NAMES -->    from here on files of the data folder, or programs

``python tests/test_docs_blocks.py PAGE…`` writes the transcripts of pages anew.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import typer
from data_files import FOLDER, data_file

from suquan.cli._app import app

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if "_build" not in page.parts),
]
CODE = {"python", "sh", "console"}
COMMENTS = {"setup", "slow", "needs"}
OTHER = {"text", "bibtex", "r", "toml", "csv", "json", "html"}
BLOCK = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)$"
    r"|^ *<!-- (?P<mark>setup|not run|slow|needs)\b:?(?P<said>.*?)-->",
    re.DOTALL | re.MULTILINE,
)
STEP = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
NUMBER = r"-?\d[\d,]*+\.?+\d*+(?:e[-+]?\d+)?+"


@dataclass
class Block:
    """A block of a page, or what a comment says; not_run says why a block is not."""

    kind: str
    text: str
    line: int
    where: tuple[int, int] = (0, 0)
    not_run: str = ""


def read_blocks(text, line=1):
    """Blocks of code and comments in the order of the page."""
    found, not_run, before = [], "", 0
    for match in BLOCK.finditer(text):
        at = line + text.count("\n", 0, match.start())
        assert not (not_run and text[before : match.start()].strip()), f"line {at}: not run?"
        before = match.end()
        kind = (match["kind"] or "").strip()
        if match["mark"] == "not run":
            not_run = match["said"].strip()
            assert not_run, f"line {at}: why not?"
        elif match["mark"]:
            found.append(Block(match["mark"], match["said"], at))
        elif kind.startswith("{"):  # a directive, which may hold blocks
            found += read_blocks(match["text"], at + 1)
        else:
            indent, where = match["indent"], match.span("text")
            lines = match["text"].splitlines(keepends=True)
            code = "".join(part.removeprefix(indent) for part in lines)
            found.append(Block(kind.partition(" ")[0], code, at, where, not_run))
            not_run = ""
    assert not not_run, "a comment stands before no block"
    return found


def commands(block):
    """Arguments of the commands in a block of the shell."""
    text = block.text
    if block.kind == "console":
        text = "\n".join(step[1] for step in STEP.finditer(text))
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"\w+=\S*", words[0]):
            del words[0]
        cut = next((k for k, word in enumerate(words) if word in ("|", ">", "&&")), len(words))
        if words:
            yield words[:cut]


def check_command(words):
    """Raise where a command names an option, an extra, a target or a module that is not there."""
    program, *rest = words
    if program == "suquan":
        name, *arguments = rest or ["--help"]
        known = typer.main.get_command(app).commands
        assert name in known or name.startswith("-"), f"no command {name!r} among {sorted(known)}"
        if name in known and "--help" not in arguments:
            try:
                known[name].make_context(name, arguments)
            except Exception as error:  # of the parser, which typer keeps to itself
                raise AssertionError(f"{shlex.join(words)}: {error}") from error
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert set(rest) <= set(targets)
    elif "install" in rest:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        asked = ",".join(re.findall(r"\[(.*?)\]", " ".join(rest))).split(",")
        assert set(asked) <= {"", *project["optional-dependencies"]}
    elif program == "python" and rest[0] == "-m" and rest[1] != "pip":
        place = ROOT.joinpath(*rest[1].split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file()


def run_shell(text):
    """The finished process of a text of commands, both streams in one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def tidy(text):
    """Without the blank lines and the blanks at the ends of lines around the tables of commands."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())


def replay(text):
    """The text of a transcript, its commands run anew."""
    return STEP.sub(lambda step: f"$ {step[1]}\n{tidy(run_shell(step[1]).stdout)}", text)


def pattern(said):
    """Regular expression of a text with other numbers, and with any lines in place of a line `...`."""
    lines = []
    for line in said.splitlines(keepends=True):
        words = [re.escape(part) for part in re.split(NUMBER, line)]
        lines.append("(?:.*\n)*?" if line == "...\n" else f"({NUMBER})".join(words))
    return "".join(lines)


def check_transcript(page, said):
    """Raise where a transcript differs by more than the last digits of numbers."""
    steps = zip(STEP.findall(page), STEP.findall(said), strict=True)
    for (command, expected), (_, found) in steps:
        # A line left out may have been the widest of a table.
        expected, found = (re.sub("─+", "─", tidy(text)) for text in (expected, found))
        same = re.fullmatch(pattern(expected), found)
        assert same, f"{command}\n{found}"
        numbers = [*map(number, same.groups())]
        assert numbers == pytest.approx(
            [*map(number, re.findall(NUMBER, expected))], rel=0.02, abs=0.02
        )


def number(text):
    return float(text.replace(",", ""))


def run_python(text, page, line, names):
    exec(compile("\n" * line + text, str(page), "exec"), names)


def run_page(page, with_slow=True):
    """Run the blocks of a page in the present folder; give its transcripts and what they say now."""
    names: dict = {"__name__": "page"}
    for block in read_blocks(page.read_text("utf-8")):
        if block.kind == "slow" and not with_slow:
            return
        if block.kind == "needs":
            for name in block.text.split():
                if "." in name:
                    data_file(name)
                elif shutil.which(name) is None:
                    pytest.skip(f"no program {name}")
        elif block.not_run:
            continue
        elif block.kind in ("python", "setup"):
            run_python(block.text, page, block.line, names)
        elif block.kind == "sh":
            done = run_shell(block.text)
            assert done.returncode == 0, f"line {block.line}: {done.stdout}"
        elif block.kind == "console":
            yield block, replay(block.text)


def write_examples():
    """The tables that every page can use, in the present folder."""
    rng = np.random.default_rng(0)
    genes = [f"gene{k}" for k in range(1, 31)]
    X = rng.lognormal(6.0, 1.0, size=(61, 30)) * rng.uniform(1, 10, size=(61, 1))
    relapse = np.log(X[:, 0] / X[:, 1]) + rng.logistic(scale=0.5, size=61) > 0
    months = np.round(np.exp(rng.normal(4.0 - relapse, 0.5)), 1)
    lines = [f"patient{i}," + ",".join(f"{x:.2f}" for x in X[i]) + "\n" for i in range(61)]
    head = f"patient,{','.join(genes)}\n"
    Path("table.csv").write_text("".join([head, *lines[:60]]))
    Path("new_patient.csv").write_text(head + lines[60])
    rows = [
        f"patient{i},{'yes' if relapse[i] else 'no'},{months[i]},{int(relapse[i])},{'AB'[i % 2]}\n"
        for i in range(60)
    ]
    Path("clinical.csv").write_text("".join(["patient,relapse,months,relapsed,cohort\n", *rows]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own for a page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUQUAN_DATA", str(FOLDER))
    monkeypatch.setenv("MPLBACKEND", "agg")
    write_examples()
    yield tmp_path
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_are_of_known_kinds_and_their_commands_exist(page):
    check_blocks(page.read_text("utf-8"), page)


def check_blocks(text, page):
    for block in read_blocks(text):
        where = f"line {block.line}: {block.kind!r}"
        assert block.kind in CODE | OTHER | COMMENTS, where
        assert block.kind in CODE or not block.not_run, f"{where} is not run anyway"
        if block.kind == "python":
            tree = ast.parse(block.text)
            if block.not_run:
                kept = [part for part in tree.body if isinstance(part, ast.Import | ast.ImportFrom)]
                run_python(ast.unparse(ast.Module(kept, [])), page, block.line, {})
        elif block.kind in ("sh", "console"):
            for words in commands(block):
                check_command(words)


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nsuquan fit table.csv --label relapse --alpha 3 -o m.suquan\n```\n",
        "```console\n$ suquan normalise table.csv\n```\n",
        "<!-- not run: installs -->\n```sh\npip install 'suquan[cluster]'\n```\n",
        "<!-- not run: takes minutes -->\n```sh\nmake tests\n```\n",
        "<!-- not run: no data -->\n```python\nfrom suquan import normalise\n```\n",
        "<!-- not run: -->\n```python\n```\n",
        "<!-- not run: no data -->\n\nwords\n\n```python\n```\n",
        "```\nsuquan fit\n```\n",
        "````{note}\n```python\nx = =\n```\n````\n",
    ],
)
def test_blocks_that_are_wrong_are_found(text):
    with pytest.raises((AssertionError, ImportError, SyntaxError)):
        check_blocks(text, Path("page.md"))


def test_transcripts_that_are_wrong_are_found():
    page = "$ suquan inspect m\nAUC 0.91 in 3 folds\n...\nend\n$ cat a\n1,000\n"
    check_transcript(page, page.replace("...", "a\nb").replace("0.91", "0.9101"))
    for old, new in (("0.91", "0.81"), ("AUC", "auc"), ("end\n", ""), ("1,000", "1,100")):
        with pytest.raises(AssertionError):
            check_transcript(page, page.replace("...", "a\nb").replace(old, new))


def pages_to_run():
    """Pages with blocks that run; those with slow blocks without and with them."""
    for page in PAGES:
        blocks = read_blocks(page.read_text("utf-8"))
        kinds = [block.kind for block in blocks if not block.not_run]
        cut = kinds.index("slow") if "slow" in kinds else len(kinds)
        if CODE & {*kinds[:cut]}:
            yield pytest.param(page, False, id=name_of(page))
        if CODE & {*kinds[cut:]}:
            yield pytest.param(page, True, id=f"{name_of(page)}-slow", marks=pytest.mark.slow)


@pytest.mark.parametrize(("page", "with_slow"), list(pages_to_run()))
def test_page_runs_as_it_stands(page, with_slow, folder):
    for block, said in run_page(page, with_slow):
        check_transcript(block.text, said)


def rewrite(page):
    """Write the transcripts of a page anew, but for those with lines left out."""
    text = page.read_text("utf-8")
    said = [(b.where, said) for b, said in run_page(page) if "\n...\n" not in b.text]
    for (start, stop), new in reversed(said):
        text = text[:start] + new + text[stop:]
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            os.environ.setdefault("SUQUAN_DATA", str(FOLDER))
            write_examples()
            rewrite(page)
