"""How far long work is: a bar where rich is installed and the output is a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Any


class Progress:
    """Counts finished parts of a job; use as a context.

    Parameters
    ----------
    n_parts : int
        Parts that are left to do.
    enabled : bool
    """

    def __init__(self, n_parts: int, enabled: bool) -> None:
        self._n_parts = n_parts
        self._done = 0
        self._start = time.monotonic()
        self._said = self._start
        self._enabled = enabled and n_parts > 0
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if self._enabled and sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import Progress as Bar
            except ImportError:
                return self
            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("comparing", total=self._n_parts)
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, what: str) -> None:
        """Say that a part is done; plain lines come at most every two seconds."""
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=what)
        elif self._enabled:
            now = time.monotonic()
            if now - self._said >= 2.0 or self._done == self._n_parts:
                self._said = now
                left = (now - self._start) / self._done * (self._n_parts - self._done)
                self.say(f"{self._done}/{self._n_parts} done, about {left:.0f} s left ({what})")

    def say(self, line: str) -> None:
        """Print a line where progress is shown at all."""
        if self._enabled:
            with suppress(OSError):  # the work goes on where nobody reads any more
                print(line, file=sys.stderr, flush=True)
