"""Tables of the experiment on times to event."""

from __future__ import annotations

from typing import Any

import numpy as np

from suquan.statistics import corrected_difference

from ..tables import Row, column, distinct, grouped, mean_of, where
from .settings import Settings

# n_test / n_train of three folds.
_SHARE = 0.5


def tables(settings: Settings, parts: dict[str, Any]) -> dict[str, list[Row]]:
    """Concordance of every method on every set, verdicts, the price of the cut; the same of the simulation."""
    sets = [part for part in parts.values() if "dataset" in part]
    draws = [part for part in parts.values() if "truth" in part]
    made = {}
    if sets:
        scores = [{"dataset": part["dataset"]} | row for part in sets for row in part["rows"]]
        made["scores"] = grouped(scores, ["dataset", "method"], concordance=mean_of("score"))
        made["verdicts"] = [_verdict(part) for part in sets]
        made["cut"] = [row for part in sets for row in _prices(part)]
        made["means"] = [
            {"mean of": name, "sets": len(rows), "difference": mean_of("difference")(rows)}
            for name, rows in (
                ("crossfit less best fixed", made["verdicts"]),
                ("crossfit, times less cut", where(made["cut"], target="crossfit")),
                ("uniform, times less cut", where(made["cut"], target="uniform")),
            )
        ]
    if draws:
        claims = [_claim(part) for part in draws]
        made["claims"] = grouped(
            claims, ["case", "truth", "n"],
            draws=len, helps=mean_of("helps"), hurts=mean_of("hurts"), difference=mean_of("difference"),
            raw=mean_of("raw"), uniform=mean_of("uniform"), best_fixed=mean_of("best_fixed"),
            crossfit=mean_of("crossfit"), crossfit_cut=mean_of("crossfit_cut"),
        )  # fmt: skip
    return made


def _scores(part: dict[str, Any], method: str) -> np.ndarray:
    return column(where(part["rows"], method=method), "score")


def _verdict(part: dict[str, Any]) -> Row:
    """What the comparison claims of one set."""
    claim = "helps" if part["low"] > 0 else "hurts" if part["high"] < 0 else "no difference"
    known = ("dataset", "samples", "features", "events", "difference", "low", "high",
             "learning_difference", "learning_low", "learning_high", "p_groups")  # fmt: skip
    return {key: part[key] for key in known} | {"verdict": claim}


def _prices(part: dict[str, Any]) -> list[Row]:
    """Concordance with the times less that with the label cut from them, by the same target."""
    rows = []
    for name in ("uniform", "crossfit"):
        if f"{name}_cut" not in distinct(part["rows"], "method"):
            continue
        whole, cut = _scores(part, name), _scores(part, f"{name}_cut")
        difference = corrected_difference(whole - cut, _SHARE)
        rows.append(
            {
                "dataset": part["dataset"], "target": name, "times": float(whole.mean()),
                "cut": float(cut.mean()), "difference": difference.mean, "low": difference.low,
                "high": difference.high,
            }
        )  # fmt: skip
    return rows


def _claim(part: dict[str, Any]) -> Row:
    """Whether one draw's verdict claims something, and the means."""
    names = ("raw", "uniform", "best_fixed", "crossfit", "crossfit_cut")
    return {
        "case": f"{part['truth']}-{part['n']}", "truth": part["truth"], "n": part["n"],
        "helps": float(part["low"] > 0), "hurts": float(part["high"] < 0),
        "difference": part["difference"],
        **{name: float(_scores(part, name).mean()) for name in names},
    }  # fmt: skip
