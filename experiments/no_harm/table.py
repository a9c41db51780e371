"""All rules of choice, applied to what was kept: ``python -m experiments.no_harm.table --parts DIR --out DIR``.

Comes in: the parts of ``run``; with ``--add``, also what is in the folder of results already, for draws that
are not among the parts. Goes out: ``scores.csv`` (one row per problem, one column per rule), ``no_harm.csv``
(every rule against the start), ``verdict.csv`` (what the verdict of ``compare`` would say), and on the
terminal the tables of docs/design/no_harm.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from suquan.methods import METHODS
from suquan.model.rounds import Candidate
from suquan.selection.grids import choose
from suquan.statistics import corrected_difference

from ..tables import Row, column, distinct, read_rows, where, write_rows
from .families import WEIGHTS
from .run import label

ABOUT = ("kind", "problem", "n", "draw")  # which problem a row is about
# Parts of a standard error by which a target must beat the start.
PRICES = (0.0, 0.5, 1.0)
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


def rules(part: dict[str, Any], n_folds: int | None = None) -> dict[str, float]:
    """Test score of every rule, from the scores inside the training samples alone.

    `learned c`: the learned target where it beats the start by c standard errors inside, else the start.
    `half c`: the mixture likewise. `better c`: the better of the two inside. `ladder c`: the learned target
    where it passes, else the mixture where that passes, else the start. `stairs c`: from the start to the
    mixture to the learned target, each only where it beats the one kept so far by c standard errors.
    """
    inner = {name: np.array(scores)[:, :n_folds] for name, scores in part["inner"].items()}
    best = {name: _best(part, name, scores) for name, scores in inner.items()}
    test = {name: part["test"][name][k] for name, k in best.items()}
    found = {"start": test["start"], "learned": test["learned"], "half": test["half"]}

    def beats(name: str, other: str, c: float) -> bool:
        differences = inner[name][best[name]] - inner[other][best[other]]
        spread = np.sqrt(1.0 / len(differences) + part["share"])
        return bool(differences.mean() > c * differences.std(ddof=1) * spread)

    better = max(("half", "learned"), key=lambda name: inner[name][best[name]].mean())
    for c in PRICES:
        passes = {name: beats(name, "start", c) for name in ("half", "learned")}
        stairs = "start"
        for name in ("half", "learned"):
            stairs = name if beats(name, stairs, c) else stairs
        ladder = next((name for name in ("learned", "half") if passes[name]), "start")
        for rule, chosen in (
            ("learned", "learned" if passes["learned"] else "start"),
            ("half", "half" if passes["half"] else "start"),
            ("better", better if passes[better] else "start"),
            ("ladder", ladder),
            ("stairs", stairs),
        ):
            found[f"{rule} {c:g}"] = test[chosen]
    return found


def _best(part: dict[str, Any], name: str, scores: np.ndarray) -> int:
    """Best setting of a family, by the library's selection."""
    if name == "start":
        candidates = [
            Candidate(METHODS["fixed"], alpha, 0.0, 0) for alpha in part["alphas"][: len(scores)]
        ]
    else:
        strengths = zip(part["alphas"], part["smoothnesses"], strict=True)
        candidates = [Candidate(METHODS["crossfit"], a, s, 1) for a, s in strengths]
    return choose(candidates, scores, "smoothed", part["share"])


def one_fit(found: dict[str, Any]) -> dict[str, float]:
    """Test score of every rule that a plain fit could follow, at the default strengths."""
    test, last = found["test"], len(WEIGHTS) - 1
    chosen = {"start": 0, "learned": last, "half": WEIGHTS.index(0.5)}
    for name in ("own", "second", "honest"):
        losses = np.array(found[name])
        chosen[f"{name}: start or learned"] = last * int(losses[last] < losses[0])
        chosen[f"{name}: best mixture"] = int(np.argmin(losses))
    gains = found["honest"][0] - np.array(found["honest"])
    for c in (1, 2, 3):
        passes = gains[last] > c * found["honest_error"][last]
        chosen[f"honest: learned by {c} errors"] = last * int(passes)
    return {f"one fit, {name}": test[k] for name, k in chosen.items()}


def scores(parts: list[dict[str, Any]]) -> list[Row]:
    """One row per problem and rule."""
    return [row for part in parts for row in _rows(part)]


def _rows(part: dict[str, Any]) -> Iterator[Row]:
    kind = part["kind"]
    if kind == "verdict":
        return
    if kind == "variants":
        found = {
            f"{variant}, {rule}": score
            for variant in ("knots_10", "knots_5", "departure")
            for rule, score in rules(part[variant]).items()
        }
        # The start does not depend on the variant; that of the most knots stands for all.
        found["start"] = found.pop("departure, start")
    elif kind == "expression":
        folds = [rules(fold) for fold in part["folds"]]
        found = {rule: float(np.mean([fold[rule] for fold in folds])) for rule in folds[0]}
    else:
        found = rules(part)
        if "default" in part:
            found |= one_fit(part["default"])
    for rule, score in found.items():
        yield dict(zip(("problem", "n", "draw"), label(part), strict=True)) | {
            "kind": kind, "rule": rule, "auc": score,
        }  # fmt: skip


def wide(rows: list[Row]) -> list[Row]:
    """One row per problem, one column per rule; empty where a rule was not tried."""
    rules = distinct(rows, "rule")
    made: dict[tuple, Row] = {}
    for row in rows:
        about = {key: row[key] for key in ABOUT}
        made.setdefault(tuple(about.values()), about | dict.fromkeys(rules, ""))[row["rule"]] = row[
            "auc"
        ]
    return list(made.values())


def read_scores(folder: Path) -> list[Row]:
    """One row per problem and rule, from the file that :func:`wide` made."""
    return [
        {key: row[key] for key in ABOUT} | {"rule": rule, "auc": auc}
        for row in read_rows(folder / "scores.csv")
        for rule, auc in row.items()
        if rule not in ABOUT and not np.isnan(auc)
    ]


def added(kept: list[Row], new: list[Row], keys: tuple[str, ...]) -> list[Row]:
    """The kept rows that are not there anew, and the new ones."""
    there = {tuple(row[key] for key in keys) for row in new}
    return [row for row in kept if tuple(row[key] for key in keys) not in there] + new


def no_harm(rows: list[Row]) -> list[Row]:
    """Every rule against the start of the same kind: mean difference over the draws, with a t interval."""
    table = []
    kinds = ("simulated", "expression", "cifar10", "variants")
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


def verdicts(parts: list[dict[str, Any]]) -> list[Row]:
    """What the verdict would say under every rule, by true target."""
    told: dict[tuple[str, str], list[Any]] = {}
    for part in parts:
        if part["kind"] != "verdict":
            continue
        folds = [rules(fold) for fold in part["folds"]]
        for rule in folds[0]:
            change = np.array([fold[rule] for fold in folds]) - np.array(part["best_fixed"])
            contrast = corrected_difference(change, part["share"])
            told.setdefault((part["target"], rule), []).append(contrast)
    return [
        {
            "target": target,
            "rule": rule,
            "comparisons": len(found),
            "helps": sum(one.low > 0 for one in found),
            "hurts": sum(one.high < 0 for one in found),
            "difference": float(np.mean([one.mean for one in found])),
        }
        for (target, rule), found in told.items()
    ]


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


def main() -> None:
    """Read the parts and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--add", action="store_true", help="to the results that are in --out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    parts = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((options.parts / "parts").glob("*.json"))
    ]
    rows, told = scores(parts), verdicts(parts)
    if options.add:
        rows = added(read_scores(options.out), rows, ABOUT)
        told = added(read_rows(options.out / "verdict.csv"), told, ("target", "rule"))
    write_rows(options.out / "scores.csv", wide(rows))
    write_rows(options.out / "no_harm.csv", no_harm(rows))
    write_rows(options.out / "verdict.csv", told)
    kept = [read_rows(options.out / "no_harm.csv"), read_rows(options.out / "verdict.csv")]
    print(tables(*kept), end="")


if __name__ == "__main__":
    main()
