"""What the commands say: lines and tables for people, one JSON object for machines, errors in one line.

`suquan.cli._app` runs every command inside `running`, which gives it an `Output` to say things with and turns
whatever goes wrong into an exit code.
"""

import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from suquan._files import DISK_FULL
from suquan.cli import INSTALL
from suquan.cli._interrupts import Ended, safe_interrupts
from suquan.cli._options import Options

MISTAKE, BUG, ENDED = 1, 70, 128  # a signal's number is added to the last
EXIT_CODES = (
    "Exit codes: 0 done, 1 a mistake in what was given, 2 wrong usage, 70 a bug in suquan, "
    "130 interrupted (Ctrl-C), 143 and 129 ended by SIGTERM and SIGHUP."
)
DEBUG = "SUQUAN_DEBUG"


def safe(text: Any) -> str:
    """Text on one line that cannot steer a terminal: what is not printable is shown as its code."""
    flat = " ".join(str(text).split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in flat)


class Output:
    """Where a command says what it does and what came out.

    Parameters
    ----------
    command : str
    options : Options
        Whether to say nothing but errors, to end with one JSON object on standard output, and to say all else
        on standard error, because standard output is for results alone.
    """

    def __init__(self, command: str, options: Options) -> None:
        self._to_stderr = options.prints_results
        self.command, self.quiet, self.as_json = command, options.quiet, options.as_json
        self.results: dict[str, Any] = {}
        self.warnings: list[str] = []

    def _print(self, thing: Any, *, error: bool, style: str | None = None) -> None:
        from rich.console import Console

        # Made anew for each line: standard output may have been redirected since. Lines are not cut where
        # they do not go to a terminal, and a terminal folds them.
        stream = sys.stderr if error else sys.stdout
        width = None if stream.isatty() else 10_000
        console: Any = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
        # The work goes on where nobody reads any more. Rich would end the program.
        console.on_broken_pipe = lambda: discard(stream)
        try:
            console.print(thing, style=style, soft_wrap=isinstance(thing, str))
        except OSError:
            discard(stream)

    def say(self, line: Any, *, strong: bool = False) -> None:
        """Tell people a line."""
        if not self.quiet:
            self._print(safe(line), error=self._to_stderr, style="bold" if strong else None)

    def keep(self, **results: Any) -> None:
        """Keep results for the JSON object."""
        self.results |= results

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
        """Show a table to people; numbers are aligned to the right."""
        if self.quiet:
            return
        from rich import box
        from rich.table import Table
        from rich.text import Text

        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for k, column in enumerate(columns):
            numeric = all(isinstance(row[k], int | float) for row in rows)
            shown.add_column(safe(column), justify="right" if numeric else "left", no_wrap=numeric)
        for row in rows:
            shown.add_row(*(Text(safe(number(cell))) for cell in row))
        if title:
            self.say(title, strong=True)
        self._print(shown, error=self._to_stderr)

    def fail(self, line: str) -> None:
        """Say why the command ends."""
        self._print(f"suquan {self.command}: {safe(line)}", error=True)

    def warn(self, text: Any) -> None:
        """Warn once of each thing."""
        line = safe(text)
        if line in self.warnings:
            return
        self.warnings.append(line)
        if not self.quiet:
            self._print(f"warning: {line}", error=True, style="yellow")


def discard(stream: Any) -> None:
    """Send to nowhere what is still to be written to standard output or standard error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def number(value: Any) -> str:
    """A value for a table."""
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else "–"
    return f"{value:,}" if type(value) is int else str(value)


def jsonable(value: Any) -> Any:
    """A value of plain JSON: NumPy's become Python's, what is not finite becomes null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


@contextmanager
def running(command: str, options: Options) -> Iterator[Output]:
    """Run a command: show warnings as lines, and turn what goes wrong into one line and an exit code."""
    output = Output(command, options)
    is_lost = sys.stdout is None and options.prints_results
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before the command began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        warnings.showwarning = lambda message, *rest, **more: output.warn(
            options.in_own_words(str(message))
        )
        # Processes that do single folds stay silent; the fit to all samples speaks for itself.
        os.environ.setdefault("PYTHONWARNINGS", "ignore")
        try:
            with safe_interrupts():
                if is_lost:
                    raise ValueError("standard output is closed; open it, or write to a file (-o).")
                options.check_files()
                yield output
                if output.as_json:
                    result = {"command": command, **output.results, "warnings": output.warnings}
                    print(json.dumps(jsonable(result), allow_nan=False), flush=True)
        except KeyboardInterrupt as end:
            number = signal.Signals(end.args[0] if isinstance(end, Ended) else signal.SIGINT)
            output.fail("interrupted" if number == signal.SIGINT else f"ended by {number.name}")
            sys.exit(ENDED + number)
        except Exception as error:
            # The program around the commands ends quietly where a pipe was closed.
            if isinstance(error, BrokenPipeError) or os.environ.get(DEBUG):
                raise
            code, line = explain(error)
            output.fail(options.in_own_words(line))
            sys.exit(code)


def explain(error: Exception) -> tuple[int, str]:
    """Exit code and one line: what was wanted, what came, what to do; or that it is a bug."""
    if isinstance(error, MemoryError):
        return MISTAKE, "memory is full; use a smaller table, or fewer processes (--n-jobs 1)."
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        advice = "free some" if error.errno in DISK_FULL else "check the path and the permissions"
        return MISTAKE, f"{where}{error.strerror}; {advice}."
    if isinstance(error, ImportError) and not (error.name or "suquan").startswith("suquan"):
        return MISTAKE, f"{error.name} is not installed; run: {INSTALL}"
    # Checks of what was given raise ValueError, TableError among them. A cluster may be lost at any time.
    if isinstance(error, ValueError | OSError) or type(error).__name__ == "DaskConnectionError":
        return MISTAKE, str(error)
    told = f"{type(error).__name__}: {error}"
    return BUG, f"this is a bug in suquan ({told}); please report it with what {DEBUG}=1 shows."
