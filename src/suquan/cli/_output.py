"""What the commands say: lines and tables for people, one JSON object for machines, errors in one line.

`suquan.cli._app` runs every command inside `running`, which gives it an `Output` to say things with and turns
whatever goes wrong into an exit code.
"""

import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from suquan.cli import INSTALL
from suquan.cli._options import Options
from suquan.files.disk import DISK_FULL

MISTAKE, BUG, ENDED = 1, 70, 128  # a signal's number is added to the last
EXIT_CODES = (
    "Exit codes: 0 done, 1 a mistake in what was given, 2 wrong usage, 70 a bug in suquan, "
    "130 interrupted (Ctrl-C), 143 and 129 ended by SIGTERM and SIGHUP."
)
DEBUG = "SUQUAN_DEBUG"


def safe(text: Any) -> str:
    """Put text on one line that cannot steer a terminal: what is not printable is shown as its code."""
    flat = " ".join(str(text).split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in flat)


def discard(stream: Any) -> None:
    """Send to nowhere what is still to be written to standard output or standard error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def make_console(stream: Any, *, quiet: bool = False) -> Any:
    """Make a console that does not cut lines where they go to no terminal, nor end where nobody reads."""
    from rich.console import Console

    width = None if stream.isatty() else 10_000
    plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    console: Any = Console(file=stream, width=width, quiet=quiet, **plain)
    console.on_broken_pipe = partial(discard, stream)  # rich would end the program
    return console


class Output:
    """Where a command says what it does and what came out.

    Lines for people go to standard error where standard output is for results alone.
    """

    def __init__(self, command: str, options: Options) -> None:
        self.command, self.quiet, self.as_json = command, options.quiet, options.as_json
        stream = sys.stderr if options.prints_results else sys.stdout
        self._people = make_console(stream, quiet=self.quiet)
        self._asides = make_console(sys.stderr, quiet=self.quiet)
        self._errors = make_console(sys.stderr)
        self.results: dict[str, Any] = {}
        self.warnings: list[str] = []

    def _print(self, console: Any, thing: Any, style: str | None = None) -> None:
        try:
            console.print(thing, style=style, soft_wrap=isinstance(thing, str))
        except OSError:  # the work goes on where nobody reads any more
            discard(console.file)

    def say(self, line: Any, *, strong: bool = False) -> None:
        """Tell people a line."""
        self._print(self._people, safe(line), "bold" if strong else None)

    def keep(self, **results: Any) -> None:
        """Keep results for the JSON object."""
        self.results |= results

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show a table to people; numbers are aligned to the right."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for k, column in enumerate(columns):
            numeric = all(isinstance(row[k], int | float) for row in rows)
            shown.add_column(safe(column), justify="right" if numeric else "left", no_wrap=numeric)
        for row in rows:
            shown.add_row(*(Text(safe(number(cell))) for cell in row))
        self._print(self._people, shown)

    @contextmanager
    def status(self, line: str) -> Iterator[Callable[[str], None]]:
        """Show a line while the context lasts, if at a terminal; give a function that shows another."""
        if self._asides.is_terminal:
            with self._asides.status(line) as status:
                yield status.update
        else:
            yield lambda line: None

    def fail(self, line: str) -> None:
        """Say why the command ends."""
        self._print(self._errors, f"suquan {self.command}: {safe(line)}")

    def warn(self, text: Any) -> None:
        """Warn once of each thing."""
        line = safe(text)
        if line not in self.warnings:
            self.warnings.append(line)
            self._print(self._asides, f"warning: {line}", "yellow")


def number(value: Any) -> str:
    """Write a value for a table."""
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "–"
    return f"{value:,}" if type(value) is int else str(value)


def jsonable(value: Any) -> Any:
    """Make a value of plain JSON: NumPy's become Python's, what is not finite becomes null."""

    def plain(item: Any) -> Any:
        return item.tolist() if hasattr(item, "tolist") else str(item)

    return json.loads(json.dumps(value, default=plain), parse_constant=lambda name: None)


class Ended(KeyboardInterrupt):
    """A signal has come, whose number is the first argument."""


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Raise Ended for SIGTERM and SIGHUP, as Python does for Ctrl-C, where nobody else handles them.

    Left alone, they would end the process at once, and leave workers and temporary files behind.
    """

    def end(came: int, frame: Any) -> None:
        raise Ended(came)

    ours = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        ours = []
    for came in ours:
        signal.signal(came, end)
    try:
        yield
    finally:
        for came in ours:
            signal.signal(came, signal.SIG_DFL)


@contextmanager
def running(command: str, options: Options) -> Iterator[Output]:
    """Run a command: show warnings as lines, and turn what goes wrong into one line and an exit code."""
    is_lost = sys.stdout is None and options.prints_results
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the command began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    output = Output(command, options)
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        own = options.in_own_words
        warnings.showwarning = lambda text, *rest, **more: output.warn(own(str(text)))
        # Processes that do single folds stay silent; the fit to all samples speaks for itself.
        os.environ.setdefault("PYTHONWARNINGS", "ignore")
        try:
            with ended_in_order():
                if is_lost:
                    raise ValueError("standard output is closed; open it, or write to a file (-o).")
                options.check_files()
                yield output
                if output.as_json:
                    result = {"command": command, **output.results, "warnings": output.warnings}
                    print(json.dumps(jsonable(result)), flush=True)
        except KeyboardInterrupt as error:
            came = signal.Signals(error.args[0] if isinstance(error, Ended) else signal.SIGINT)
            output.fail("interrupted" if came == signal.SIGINT else f"ended by {came.name}")
            sys.exit(ENDED + came)
        except Exception as error:
            # The program around the commands ends quietly where a pipe was closed.
            if isinstance(error, BrokenPipeError) or os.environ.get(DEBUG):
                raise
            code, line = explain(error)
            output.fail(own(line))
            sys.exit(code)


def explain(error: Exception) -> tuple[int, str]:
    """Give the exit code and one line: what was wanted, what came, what to do; or that it is a bug."""
    if isinstance(error, MemoryError):
        return MISTAKE, "memory is full; use a smaller table, or fewer processes (--n-jobs 1)."
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        advice = "free some" if error.errno in DISK_FULL else "check the path and the permissions"
        return MISTAKE, f"{where}{error.strerror}; {advice}."
    if isinstance(error, ImportError) and not (error.name or "suquan").startswith("suquan"):
        return MISTAKE, f"{error.name} is not installed; run: {INSTALL}"
    if isinstance(error, ValueError | OSError):  # checks of what was given, TableError among them
        return MISTAKE, str(error)
    told = f"{type(error).__name__}: {error}"
    return BUG, f"this is a bug in suquan ({told}); please report it with what {DEBUG}=1 shows."
