"""The typer application, made of the options in `suquan.cli._options`; `suquan.cli.main` calls it.

The work of a command is imported when it runs.
"""

import importlib
from collections.abc import Callable
from typing import Annotated, Any

import typer

from suquan._version import __version__
from suquan.cli._options import COMMANDS, Options
from suquan.cli._output import EXIT_CODES, running

app = typer.Typer(
    name="suquan",
    help="Quantile normalisation with given or learned targets, from tables in files: CSV and TSV (also .gz), "
    "Parquet, GCT, GEO series matrix, h5ad, npz. Start with `suquan demo`.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: half the time to show it
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"suquan {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Options of the program itself."""


def make_command(kind: type[Options]) -> Callable[..., None]:
    """Function that takes the fields of `kind` and runs the module of the command."""
    name = kind.__name__.lower()

    def command(**given: Any) -> None:
        options = kind(**given)
        with running(name, options) as output:
            importlib.import_module(f"suquan.cli._{name}").run(options, output)

    command.__signature__ = kind.signature()  # type: ignore[attr-defined]
    return command


for _kind in COMMANDS:
    _name, _help = _kind.__name__.lower(), _kind.__doc__
    app.command(_name, help=_help, epilog=EXIT_CODES)(make_command(_kind))
