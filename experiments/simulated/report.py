"""Report of the simulated experiment, with what the paper says beside what came out."""

from __future__ import annotations

from pathlib import Path

from suquan.report import Section, Table

from ..figures import for_report
from ..tables import Row, distinct, grouped, mean_of, read_rows, where, yes_or_no
from .plot import STYLES, plot_curves, plot_gaps, plot_rounds
from .settings import Settings

# Bound on the default method's distance from logistic regression on the true data.
MEAN_GAP = 0.006


def sections(settings: Settings, folder: Path) -> list[Section]:
    """Figure 1, its numbers, rounds, and how they compare with the paper."""
    curves = read_rows(folder / "curves.csv")
    gaps, rounds = read_rows(folder / "gaps.csv"), read_rows(folder / "rounds.csv")
    return [
        _answer(gaps, rounds),
        Section(
            "Figure 1",
            figures=[
                for_report(
                    lambda ax: plot_curves(ax, curves, "auc"),
                    "Test AUC of each method against the number of training samples: "
                    + _spoken(curves, "auc"),
                    "Means over the corruptions and draws; bars are standard errors over draws.",
                ),
                for_report(
                    lambda ax: plot_curves(ax, curves, "distance"),
                    "Euclidean distance of the standardised targets to the true one: "
                    + _spoken(curves, "distance"),
                    "The corrupted target, and the learned ones.",
                ),
                for_report(
                    lambda ax: plot_gaps(ax, gaps),
                    "Test AUC of each method minus that of logistic regression on the true data: "
                    + _spoken(where(gaps, corruption="mean"), "gap_to_true"),
                    "The upper curves, draw by draw below the true data.",
                ),
            ],
            tables=[_curve_table(curves, "auc"), _curve_table(curves, "distance")],
        ),
        Section(
            f"At {max(settings.n_samples)} training samples",
            paragraphs=[
                "joint and crossfit start from the uniform target and see ranks alone, so that no corruption "
                "can change their result: they stand under `any`. crossfit_corrupted starts from the corrupted "
                "target. spav_small may choose smoothness below the paper's grid too."
            ],
            tables=[_gap_table(where(gaps, n=max(settings.n_samples)))],
        ),
        Section(
            "More rounds",
            paragraphs=[
                "All methods from the corrupted target, penalties chosen by cross-validation for one round."
            ],
            figures=[
                for_report(
                    lambda ax, n=n: plot_rounds(ax, where(rounds, n=n)),
                    f"Test AUC against rounds at {n} training samples.",
                    f"{n} training samples.",
                )
                for n in distinct(rounds, "n")
            ],
        ),
    ]


def statements(gaps: list[Row], rounds: list[Row]) -> list[tuple[str, str, str]]:
    """What the paper or the project's own aim says, what came out, and whether it holds."""
    largest = max(row["n"] for row in gaps)
    mean = {
        (row["method"], row["selection"]): row for row in where(gaps, corruption="mean", n=largest)
    }
    told = []
    for method in ("bnd", "spav"):
        gain = mean[method, "best"]["auc"] - mean["corrupted", "best"]["auc"]
        told.append(
            (
                f"{method.upper()} above logistic regression on the corrupted data (paper)",
                f"{gain:+.4f} AUC",
                yes_or_no(gain > 0),
            )
        )
    for method, words in (("spav", "the paper's grid"), ("spav_small", "smaller γ too")):
        gap = mean[method, "best"]["gap_to_true"]
        told.append(
            (
                f"SPAV almost as good as logistic regression on the true data (paper); {words}",
                f"{gap:+.4f} AUC",
                yes_or_no(gap > -MEAN_GAP),
            )
        )
    gap = mean["crossfit", "smoothed"]["gap_to_true"]
    told.append(
        (
            f"crossfit within {MEAN_GAP} AUC of the true data",
            f"{gap:+.4f}",
            yes_or_no(gap >= -MEAN_GAP),
        )
    )
    for method in ("bnd", "joint"):
        part = [row for row in rounds if row["method"] == method]
        part = where(part, n=max(row["n"] for row in part))
        last = max(row["rounds"] for row in part)
        change = mean_of("auc")(where(part, rounds=last)) - mean_of("auc")(where(part, rounds=1))
        told.append(
            (
                f"more rounds change nothing (paper): {method}, {last} rounds against 1",
                f"{change:+.4f} AUC",
                yes_or_no(abs(change) < 0.005),
            )
        )
    return told


def _answer(gaps: list[Row], rounds: list[Row]) -> Section:
    told = statements(gaps, rounds)
    table = Table(
        "What is said, and what came out", ["statement", "found", "holds"], told, numeric=(1,)
    )
    return Section(
        "In short",
        paragraphs=[
            "The paper gives Figure 1 as curves without numbers; its statements are checked here."
        ],
        tables=[table],
    )


def _spoken(curves: list[Row], value: str) -> str:
    largest = max(row["n"] for row in curves)
    told = [
        f"{STYLES[key][0]} {row[value]:.3f}"
        for row in where(curves, n=largest)
        if (key := (row["method"], row["selection"])) in STYLES
    ]
    return "; ".join(told) + f" at {largest}."


def _curve_table(curves: list[Row], value: str) -> Table:
    sizes = sorted(distinct(curves, "n"))
    rows = [[row["method"], row["selection"]] for row in grouped(curves, ["method", "selection"])]
    for cells in rows:
        method, selection = cells
        found = {row["n"]: row for row in where(curves, method=method, selection=selection)}
        cells += [
            f"{found[n][value]:.4f} ± {found[n][f'{value}_error']:.4f}" if n in found else "–"
            for n in sizes
        ]
    caption = "Test AUC" if value == "auc" else "Distance to the true target"
    columns = ["method", "penalties by", *(f"n = {n}" for n in sizes)]
    return Table(f"{caption}, ± standard error", columns, rows, numeric=range(2, len(columns)))


def _gap_table(gaps: list[Row]) -> Table:
    corruptions = distinct(gaps, "corruption")
    rows = []
    for key in grouped(gaps, ["method", "selection"]):
        found = {row["corruption"]: row for row in where(gaps, **key)}
        cells = [
            f"{found[c]['auc']:.4f} ({found[c]['gap_to_true']:+.4f})" if c in found else "–"
            for c in corruptions
        ]
        rows.append([key["method"], key["selection"], *cells])
    columns = ["method", "penalties by", *corruptions]
    return Table(
        "Test AUC (and difference to logistic regression on the true data)",
        columns,
        rows,
        numeric=range(2, len(columns)),
    )
