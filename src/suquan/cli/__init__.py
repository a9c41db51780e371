"""The command ``suquan``: tables and labels in, models, scores and reports out.

Nothing heavy is imported before a command needs it.
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]

INSTALL = "python -m pip install 'suquan[cli]'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, default=None
        None: those of the process.

    Returns
    -------
    int
        0 done, 1 a mistake in what was given, 2 wrong usage, 70 a bug in suquan, 130 interrupted, 143 and 129
        ended by SIGTERM and SIGHUP.
    """
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        print(f"suquan: {error.name} is not installed; run: {INSTALL}", file=sys.stderr)
        return 1
    from suquan.cli._app import app

    try:
        app(args=None if arguments is None else list(arguments), prog_name="suquan")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0
