"""What the experiments share: settings, parts that are kept as they are done, tables, pictures, report.

Three stages, each of which reads what the one before it has written in the folder of results:

- run: parts of the work, each a JSON file in ``parts/``; what is done is not done again;
- table: tidy CSV files;
- plot: figures as PNG, and ``report.html``.

`command.py` calls them, in this order.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from suquan import __version__
from suquan.files.disk import read_part, replace_file
from suquan.report import Section, write_page

from .tables import Row, write_rows

STAGES = ("run", "table", "plot")
SETTINGS = "settings.csv"
PARTS = "parts"
DPI, N_COLORS = 100, 64  # of figures


@dataclass(frozen=True)
class Task:
    """A part of the work: its name (a file's), and what the experiment needs to do it."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    Attributes
    ----------
    name, title : str
    protocols : dict of settings
        Dataclasses, by the name of the protocol.
    tasks : callable
        ``tasks(settings, data)``: the parts of the work.
    run : callable
        ``run(settings, data, arguments, n_jobs, folder)``: one part, as something JSON can hold. `folder` is
        for checkpoints of its own.
    tables : callable
        ``tables(settings, parts)``: rows of every table by name, from the parts by name.
    figures : callable
        ``figures(settings, folder)``: draws; gives (name, matplotlib figure) pairs.
    sections : callable
        ``sections(settings, folder)``: sections of the report.
    parts_in_parallel : bool
        Whether parts run side by side (else each uses all processes itself).
    takes_arrays : bool
        Whether there are options for CEL files.
    check : callable or None
        ``check(settings, data)``: raises ValueError before anything is written if the data cannot be used.
    subtitle : str
        Of the report.
    """

    name: str
    title: str
    protocols: dict[str, Any]
    tasks: Callable[[Any, Path | None], list[Task]]
    run: Callable[..., Any]
    tables: Callable[[Any, dict[str, Any]], dict[str, list[Row]]]
    figures: Callable[[Any, Path], Sequence[tuple[str, Any]]]
    sections: Callable[[Any, Path], list[Section]]
    parts_in_parallel: bool = True
    takes_arrays: bool = False
    check: Callable[[Any, Path | None], None] | None = None
    subtitle: str = "Le Morvan & Vert (2017), section 6, computed anew"


# -- settings ---------------------------------------------------------------------------------------


def make_settings(experiment: Experiment, protocol: str, changes: dict[str, Any]) -> Any:
    """Settings of a protocol with single ones changed."""
    settings = experiment.protocols[protocol]
    known = [field.name for field in fields(settings)]
    for name in changes:
        if name not in known:
            raise ValueError(
                f"{experiment.name} has no setting {name!r}; there are {', '.join(known)}."
            )
    return replace(
        settings, **{name: _like(getattr(settings, name), name, v) for name, v in changes.items()}
    )


def _like(present: Any, name: str, value: Any) -> Any:
    """A given value in the type of the present one."""
    if isinstance(present, tuple):
        if not isinstance(value, list) or (present and not value):
            raise ValueError(f"{name} takes a list, such as {json.dumps(present)}; got {value!r}.")
        return tuple(tuple(item) if isinstance(item, list) else item for item in value)
    if isinstance(present, int) and not isinstance(present, bool) and not isinstance(value, int):
        raise ValueError(f"{name} takes an integer, such as {present}; got {value!r}.")
    return value


def open_folder(
    experiment: Experiment, settings: Any, protocol: str, folder: Path, *, resume: bool
) -> None:
    """Begin in an empty folder, or go on where the same experiment was begun with the same settings."""
    plain = json.loads(json.dumps(asdict(settings)))
    if (folder / SETTINGS).is_file():
        kept, _ = _kept(experiment, folder)
        different = [name for name, value in plain.items() if kept.get(name) != value]
        if different:
            raise ValueError(
                f"{folder} was begun with other settings ({', '.join(different)}); give another folder with "
                "--out, or the same protocol and settings."
            )
        if not resume:
            raise ValueError(
                f"{folder} holds results already; add --resume to go on there, or give another folder "
                "with --out."
            )
        return
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; give a folder with --out.")
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    about = {"experiment": experiment.name, "protocol": protocol, "version": __version__}
    rows = [{"name": name, "value": value} for name, value in about.items()]
    rows += [{"name": name, "value": json.dumps(value)} for name, value in plain.items()]
    write_rows(folder / SETTINGS, rows)


def read_settings(experiment: Experiment, folder: Path) -> tuple[Any, str]:
    """Settings and protocol that a folder of results was made with."""
    if not (folder / SETTINGS).is_file():
        raise ValueError(f"{folder} holds no results; run the stage `run` there first.")
    kept, protocol = _kept(experiment, folder)
    return make_settings(experiment, protocol, kept), protocol


def _kept(experiment: Experiment, folder: Path) -> tuple[dict[str, Any], str]:
    """Read the settings and the protocol that a folder was begun with; refuse another experiment's."""
    with (folder / SETTINGS).open(encoding="utf-8", newline="") as file:
        kept = {row["name"]: row["value"] for row in csv.DictReader(file)}
    name, protocol, _ = (kept.pop(key, "") for key in ("experiment", "protocol", "version"))
    if name != experiment.name:
        raise ValueError(f"{folder} holds results of {name!r}; give another folder with --out.")
    return {key: json.loads(value) for key, value in kept.items()}, protocol


# -- run --------------------------------------------------------------------------------------------


def part_path(folder: Path, task: Task) -> Path:
    """File of a part."""
    return folder / PARTS / f"{task.name}.json"


def undone(tasks: Sequence[Task], folder: Path) -> list[Task]:
    """Parts that are still to do; a damaged part is one of them."""
    return [task for task in tasks if read_part(part_path(folder, task), json.load) is None]


def run_task(
    experiment: Experiment,
    settings: Any,
    data: Path | None,
    folder: Path,
    task: Task,
    n_jobs: int,
) -> str:
    """Do one part and keep it; its name."""
    result = experiment.run(settings, data, task.arguments, n_jobs, folder / PARTS / task.name)
    text = json.dumps(result)
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    replace_file(part_path(folder, task), lambda file: file.write(text.encode()))
    return task.name


# -- table and plot ---------------------------------------------------------------------------------


def make_tables(
    experiment: Experiment, settings: Any, tasks: Sequence[Task], folder: Path
) -> list[Path]:
    """Tables from the parts, all of which must be there."""
    left = undone(tasks, folder)
    if left:
        raise ValueError(
            f"{len(left)} of {len(tasks)} parts in {folder} are not done; run the stage `run` to the end."
        )
    parts = {
        task.name: json.loads(part_path(folder, task).read_text(encoding="utf-8")) for task in tasks
    }
    tables = experiment.tables(settings, parts)
    return [write_rows(folder / f"{name}.csv", rows) for name, rows in tables.items()]


def make_figures(experiment: Experiment, settings: Any, folder: Path) -> list[Path]:
    """Draw figures from the tables, as PNG of few colours: a third of the bytes look the same."""
    import matplotlib
    from PIL import Image

    written = []
    look = {"backend": "agg", "axes.spines.top": False}
    with matplotlib.rc_context(look | {"axes.spines.right": False, "legend.frameon": False}):
        for name, figure in experiment.figures(settings, folder):
            drawn = BytesIO()
            figure.savefig(drawn, format="png", dpi=DPI)
            image = Image.open(drawn).convert("RGB").quantize(N_COLORS)
            save = partial(image.save, format="png", optimize=True)
            written.append(replace_file(folder / f"{name}.png", save))
    return written


def make_report(experiment: Experiment, settings: Any, folder: Path, command: str) -> Path:
    """``report.html`` from the tables."""
    sections = [
        *experiment.sections(settings, folder),
        Section(
            "Run it again",
            paragraphs=[
                "Settings: "
                + "; ".join(f"{name} = {value}" for name, value in asdict(settings).items())
            ],
            code=command,
        ),
    ]
    return write_page(
        folder / "report.html",
        experiment.title,
        sections,
        subtitle=experiment.subtitle,
        footer=f"suquan {__version__}",
    )
