"""Report of the experiment on times to event."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from suquan.report import Section, Table

from ..figures import for_report
from ..tables import Row, column, distinct, read_rows, where
from .plot import GAIN, PRICE, chosen, plot_differences
from .settings import Settings


def sections(settings: Settings, folder: Path) -> list[Section]:
    """Verdicts, concordance of all methods, the price of the cut, claims on known hazards."""
    made = []
    if (folder / "scores.csv").is_file():
        verdicts, cut = read_rows(folder / "verdicts.csv"), read_rows(folder / "cut.csv")
        made += [_verdicts(verdicts), _scores(read_rows(folder / "scores.csv")), _cut(cut)]
    if (folder / "claims.csv").is_file():
        made.append(_claims(read_rows(folder / "claims.csv")))
    return made


def _number(value: float, form: str = ".3f") -> str:
    return "–" if np.isnan(value) else f"{value:{form}}"


def _verdicts(rows: list[Row]) -> Section:
    counts = {name: len(where(rows, verdict=name)) for name in ("helps", "hurts", "no difference")}
    told = ", ".join(f"{name}: {count}" for name, count in counts.items())
    mean = float(np.mean(column(rows, "difference")))
    columns = [
        "Set",
        "Samples",
        "Events",
        "Difference",
        "95% interval",
        "Verdict",
        "p of the thirds",
    ]
    cells = [
        (
            str(row["dataset"]), str(row["samples"]), str(row["events"]), f"{row['difference']:+.3f}",
            f"{row['low']:+.3f} to {row['high']:+.3f}", str(row["verdict"]), _number(row["p_groups"]),
        )
        for row in rows
    ]  # fmt: skip
    picture = for_report(
        lambda ax: plot_differences(ax, rows, GAIN),
        f"Difference in concordance on each set, with intervals: {told}.",
        "Learned target minus best_fixed, with 95% intervals.",
    )
    text = (
        f"Is the learned target the better choice than best_fixed? {told}. The mean difference over the sets "
        f"is {mean:+.4f}. p is for thirds of out-of-fold risk that say nothing."
    )
    table = Table("Verdicts.", columns, cells, numeric=(1, 2, 3, 6))
    return Section("In short", paragraphs=[text], figures=[picture], tables=[table])


def _scores(rows: list[Row]) -> Section:
    methods, sets = distinct(rows, "method"), distinct(rows, "dataset")
    cells = []
    for name in sets:
        found = {row["method"]: row["concordance"] for row in where(rows, dataset=name)}
        cells.append((str(name), *(_number(found.get(method, np.nan)) for method in methods)))
    table = Table("Mean concordance over the outer folds.", ["Set", *map(str, methods)], cells)
    return Section("Concordance of all methods", tables=[table])


def _cut(rows: list[Row]) -> Section:
    means = [
        f"{np.mean(column(where(rows, target=name), 'difference')):+.4f} with the target {name}"
        for name in distinct(rows, "target")
    ]
    text = (
        "The same patients with the label “event by the horizon”: a classifier is trained on those whose label "
        "is known, and its scores are compared with the times of all test patients. Cox's model less that, on "
        f"average over the sets: {', '.join(means)}."
    )
    columns = ["Set", "Target", "Times", "Cut", "Difference", "95% interval"]
    cells = [
        (
            str(row["dataset"]), str(row["target"]), _number(row["times"]), _number(row["cut"]),
            f"{row['difference']:+.3f}", f"{row['low']:+.3f} to {row['high']:+.3f}",
        )
        for row in rows
    ]  # fmt: skip
    picture = for_report(
        lambda ax: plot_differences(ax, chosen(rows), PRICE),
        "Difference in concordance of Cox's model and of a classifier of the cut label, on each set.",
        "What cutting costs, with 95% intervals.",
    )
    table = Table("The price of cutting.", columns, cells, numeric=(2, 3, 4))
    return Section("The price of cutting", paragraphs=[text], figures=[picture], tables=[table])


def _claims(rows: list[Row]) -> Section:
    columns = ["True target", "Samples", "Draws", "“helps”", "“hurts”", "Best fixed", "Learned"]
    columns.append("Learned, cut")
    cells = [
        (
            str(row["truth"]), str(row["n"]), str(row["draws"]), _number(row["helps"], ".0%"),
            _number(row["hurts"], ".0%"), _number(row["best_fixed"]), _number(row["crossfit"]),
            _number(row["crossfit_cut"]),
        )
        for row in rows
    ]  # fmt: skip
    text = (
        "Simulated patients with a known target and a known hazard. With “extremes” no fixed target is right, "
        "and the share of draws whose verdict is “helps” is power; with the others it "
        "is that of false claims."
    )
    table = Table("Verdicts on known hazards.", columns, cells, numeric=range(1, 8))
    return Section("Known hazards", paragraphs=[text], tables=[table])
