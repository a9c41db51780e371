"""Every rule against the start: ``python -m experiments.no_harm.table --out DIR``.

``DIR/scores.csv`` comes in, one row per problem and one column per rule, as ``run`` wrote it or as it is
stored; ``DIR/no_harm.csv`` goes out, mean differences to the start, and on the terminal the table of those
rules that docs/design/no_harm.md shows. The stored ``verdict.csv`` is of a study that is finished.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy import stats

from ..tables import Row, column, distinct, read_rows, where, write_rows
from .run import KINDS, LEARNED, START

ABOUT = ("kind", "problem", "n", "draw")  # which problem a row is about
# Columns of the tables on the page, by their rules.
SHOWN = {
    "learned": "learned (as before)",
    "learned 0": "learned, if better",
    "learned 0.5": "… by ½ s.e.",
    "learned 1": "… by 1 s.e.",
    "half": "half-way",
    "better 0.5": "better of both, by ½ s.e.",
    "stairs 0": "stairs, if better",
    "stairs 0.5": "**stairs, ½ s.e.**",
    "stairs 1": "stairs, 1 s.e.",
}
SHOWN_ONE_FIT = {
    "one fit, learned": "learned (as before)",
    "one fit, half": "half-way",
    "one fit, own: start or learned": "lower loss, own folds",
    "one fit, second: best mixture": "best mixture, second partition",
    "one fit, honest: best mixture": "best mixture, f without the fold",
    "one fit, honest: learned by 2 errors": "learned by 2 s.e., f without the fold",
}
SHOWN_VARIANTS = {
    f"{variant}, {rule}": f"{told}: {rule}"
    for variant, told in (
        ("knots_10", "10 knots"), ("knots_5", "5 knots"), ("departure", "penalty on f − f_start")
    )
    for rule in ("learned", "stairs 0.5")
}  # fmt: skip


def read_scores(folder: Path) -> list[Row]:
    """One row per problem and rule."""
    return [
        {key: row[key] for key in ABOUT} | {"rule": rule, "auc": auc}
        for row in read_rows(folder / "scores.csv")
        for rule, auc in row.items()
        if rule not in ABOUT and not np.isnan(auc)
    ]


def no_harm(rows: list[Row]) -> list[Row]:
    """Every rule against the start of the same kind: mean difference over the draws, with a t interval."""
    table = []
    kinds = (*KINDS, "variants")
    groups = {(kinds.index(r["kind"]), r["problem"], r["n"]) for r in rows}
    for place, problem, n in sorted(groups):
        kind = kinds[place]
        own = where(rows, kind=kind, problem=problem, n=n)
        for rule in distinct(own, "rule"):
            start = "one fit, start" if rule.startswith("one fit") else "start"
            score = column(where(own, rule=rule), "auc")
            change = score - column(where(own, rule=start), "auc")
            error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
            margin = stats.t.ppf(0.975, max(len(change) - 1, 1)) * error
            table.append(
                {
                    "kind": kind,
                    "problem": problem,
                    "n": n,
                    "draws": len(change),
                    "rule": rule,
                    "auc": float(score.mean()),
                    "minus_start": float(change.mean()),
                    "low": float(change.mean() - margin),
                    "high": float(change.mean() + margin),
                    "worst": float(change.min()),
                }
            )
    return table


def tables(rows: list[Row], told: list[Row]) -> str:
    """Tables of the page, from ``no_harm.csv`` and ``verdict.csv``."""
    simulated = where(rows, kind="simulated")
    blocks = [
        _differences([row for row in rows if row["kind"] != "variants"], SHOWN, "start"),
        _differences(simulated, SHOWN_ONE_FIT, "one fit, start"),
        _differences(where(rows, kind="variants"), SHOWN_VARIANTS, "start"),
        _answers(told),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _differences(rows: list[Row], shown: dict[str, str], start: str) -> str:
    """Mean difference to the start, and in brackets the lower end of its interval."""
    lines = [f"| true target or data | n | draws | start | {' | '.join(shown.values())} |"]
    lines.append("|---|---:|---:|---:" + "|---:" * len(shown) + "|")
    for problem, n in dict.fromkeys((row["problem"], row["n"]) for row in rows):
        own = {row["rule"]: row for row in where(rows, problem=problem, n=n)}
        if start in own:
            cells = [f"{own[k]['minus_start']:+.4f} ({own[k]['low']:+.4f})" for k in shown]
            cells = [cell.replace("+nan", "–") for cell in cells]
            first = f"| {problem} | {n or ''} | {own[start]['draws']} | {own[start]['auc']:.4f} | "
            lines.append(first + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _answers(told: list[Row]) -> str:
    """How often the verdict says "helps" and "hurts", and the mean difference to the best fixed target."""
    shown = ("learned", "stairs 0.5")
    lines = ["| true target | comparisons | learned: helps, hurts | stairs, ½ s.e.: helps, hurts |"]
    lines.append("|---|---:|---:|---:|")
    for target in distinct(told, "target"):
        own = {row["rule"]: row for row in where(told, target=target)}
        cells = [
            f"{own[k]['helps']}, {own[k]['hurts']} ({own[k]['difference']:+.4f})" for k in shown
        ]
        lines.append(f"| {target} | {own['learned']['comparisons']} | {' | '.join(cells)} |")
    return "\n".join(lines) if told else ""


def main(arguments: list[str] | None = None) -> None:
    """Read the scores and write the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args(arguments).out
    write_rows(folder / "no_harm.csv", no_harm(read_scores(folder)))
    rows = read_rows(folder / "no_harm.csv")
    if LEARNED in distinct(rows, "rule"):
        print(_differences(rows, {LEARNED: LEARNED}, START))
    else:
        print(tables(rows, read_rows(folder / "verdict.csv")), end="")


if __name__ == "__main__":
    main()
