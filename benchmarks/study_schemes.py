"""Rounds and time of plain alternation and of three schemes that might be faster, on the "joint" problem.

``python -m benchmarks.study_schemes`` prints and keeps ``results/schemes.csv``. Every scheme evaluates
φ(f) = min over (w, b) of J(w, b, f), by a w-step to 1e-12; f-steps are solved to 1e-8. A round is one w-step,
with whatever else the scheme does before it. All start from the uniform target. Seconds are processor time on
one thread.

- *alternation*: f ← the best f for the present w.
- *extrapolation*: the same, then f + β (f − last f), Nesterov's β, made feasible; taken where φ is no larger
  than J was after the f-step, else the plain f is taken, after a second w-step, and β starts anew.
- *Anderson*: the same with the combination of the last four f-steps whose residuals cancel best.
- *reduced gradient*: proximal gradient on φ, whose gradient is that of J at the best (w, b); Barzilai-Borwein
  steps, cut until φ falls. No f-step, only one product with its rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._table import RESULTS, markdown, write_csv
from suquan import SuquanClassifier
from suquan.datasets import make_corrupted_classification
from suquan.fitting import Settings, encode, make_problem, make_start, rank
from suquan.solvers.ridge import LinearFit
from suquan.solvers.target import solve_target
from suquan.target_sets import TARGET_SETS
from suquan.targets import learn_target

W_TOL, F_TOL = 1e-12, 1e-8
GAPS = (1e-3, 1e-6)
N_ROUNDS = 150
MEMORY = 4  # f-steps that Anderson's scheme combines
SHAPES = ((2_000, 100), (100, 2_000))
QUICK_SHAPES = ((80, 20), (20, 80))
ALPHAS_PER_FEATURE = (1e-5, 3e-4, 1e-2)
SMOOTHNESS_PER_FEATURE = 1e-4


class Study:
    """One problem, with counted steps."""

    def __init__(self, n_samples: int, n_features: int, alpha: float):
        X, y = make_corrupted_classification(n_samples, n_features, random_state=0)
        model = SuquanClassifier(
            "joint",
            alpha=alpha * n_features,
            smoothness=SMOOTHNESS_PER_FEATURE * n_features,
        )
        settings = Settings.of(model)
        data = encode(model, settings, X, y, None)
        operator = rank(settings, data.X)
        self.problem = make_problem(settings, operator, data.loss, data.y, data.weights)
        self.start = make_start(settings, n_features, n_features, partial(learn_target, data.X))
        self.target = TARGET_SETS["joint"].at(self.problem.node_smoothness)

    def w_step(self, f: np.ndarray, start: LinearFit | None = None) -> tuple[LinearFit, float]:
        """Best (w, b), and φ(f)."""
        problem = self.problem
        if problem.operator.n_samples <= problem.operator.n_features:
            start = None
        fit = problem.w_design(f).solve(
            problem.loss, problem.y, problem.s, problem.alpha, tol=W_TOL, max_iter=500, start=start
        )
        return fit, fit.objective + problem.roughness(f)

    def f_step(self, fit: LinearFit, f: np.ndarray) -> tuple[np.ndarray, float]:
        """Best f for w, and J there."""
        problem = self.problem
        step = solve_target(
            problem.f_design(fit.w),
            problem.loss,
            problem.y,
            problem.s,
            f,
            target_set="joint",
            smoothness=problem.node_smoothness,
            tol=F_TOL,
        )
        return step.f, step.objective + problem.penalty(fit.w)

    def gradient(self, fit: LinearFit) -> np.ndarray:
        """Gradient in f of the loss, at the best (w, b)."""
        problem = self.problem
        slopes = problem.loss.gradient(problem.y, fit.u, problem.s)
        g = slopes @ problem.f_design(fit.w)
        return g - g.mean()


def alternation(study: Study) -> Iterator[float]:
    """J after every w-step."""
    f = study.start
    fit, value = study.w_step(f)
    while True:
        yield value
        f, _ = study.f_step(fit, f)
        fit, value = study.w_step(f, fit)


def extrapolation(study: Study) -> Iterator[float]:
    """J after every w-step of alternation with momentum."""
    f = last = study.start
    fit, value = study.w_step(f)
    k = 0
    while True:
        yield value
        plain, bound = study.f_step(fit, f)
        ahead = study.target.make_feasible(plain + k / (k + 3.0) * (plain - last))
        last, k = plain, k + 1
        new, new_value = study.w_step(ahead, fit)
        if k > 1 and new_value > bound:
            yield value
            ahead, k = plain, 0
            new, new_value = study.w_step(plain, fit)
        f, fit, value = ahead, new, new_value


def anderson(study: Study) -> Iterator[float]:
    """J after every w-step of alternation with Anderson's combination of f-steps."""
    f = study.start
    fit, value = study.w_step(f)
    steps: list[np.ndarray] = []
    residuals: list[np.ndarray] = []
    while True:
        yield value
        plain, bound = study.f_step(fit, f)
        steps, residuals = [*steps, plain][-MEMORY:], [*residuals, plain - f][-MEMORY:]
        ahead = plain
        if len(steps) > 1:
            R = np.diff(np.array(residuals), axis=0).T
            weights = np.linalg.lstsq(R, residuals[-1], rcond=1e-10)[0]
            ahead = study.target.make_feasible(plain - np.diff(np.array(steps), axis=0).T @ weights)
        new, new_value = study.w_step(ahead, fit)
        if ahead is not plain and new_value > bound:
            yield value
            steps, residuals, ahead = [], [], plain
            new, new_value = study.w_step(plain, fit)
        f, fit, value = ahead, new, new_value


def reduced_gradient(study: Study) -> Iterator[float]:
    """φ after every w-step of proximal gradient on it."""
    f = study.start
    fit, value = study.w_step(f)
    g, step = study.gradient(fit), len(f) / value
    while True:
        yield value
        new_f = study.target.prox(f - step * g, step)
        move = new_f - f
        new, new_value = study.w_step(new_f, fit)
        if new_value > value - 1e-4 * float(move @ move) / step:
            step *= 0.25
            if step < 1e-12:
                return
            continue
        new_g = study.gradient(new)
        curvature = float(move @ (new_g - g))
        length = float(move @ move)
        step = length / curvature if curvature > 1e-12 * length / step else 4.0 * step
        f, fit, value, g = new_f, new, new_value, new_g


SCHEMES = {
    "alternation": alternation,
    "extrapolation": extrapolation,
    "Anderson": anderson,
    "reduced gradient": reduced_gradient,
}


def run(scheme, study: Study, n_rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and smallest J so far after every w-step."""
    seconds, values = [], []
    begin = time.process_time()
    for value, _ in zip(scheme(study), range(n_rounds), strict=False):
        seconds.append(time.process_time() - begin)
        values.append(value)
    return np.array(seconds), np.minimum.accumulate(values)


def rows_of_problem(n_samples: int, n_features: int, alpha: float, n_rounds: int) -> list[dict]:
    """One row per scheme."""
    study = Study(n_samples, n_features, alpha)
    runs = {name: run(scheme, study, n_rounds) for name, scheme in SCHEMES.items()}
    best = min(values[-1] for _, values in runs.values())
    rows = []
    for name, (seconds, values) in runs.items():
        row = {
            "shape": f"{n_samples:,}×{n_features:,}",
            "alpha / p": f"{alpha:g}",
            "scheme": name,
            "J at the start": float(values[0]),
            "last gap": float(values[-1] / best - 1.0),
        }
        for gap in GAPS:
            there = np.flatnonzero(values <= best * (1.0 + gap))
            first = int(there[0]) if len(there) else None
            row[f"w-steps to {gap:g}"] = "not reached" if first is None else str(first)
            row[f"seconds to {gap:g}"] = "" if first is None else f"{seconds[first]:.3g}"
        rows.append(row)
        print(f"  {row['shape']} {alpha:g} {name}: {row}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes; writes nothing")
    quick = parser.parse_args().quick
    rows = []
    with threadpool_limits(1):
        for scheme in SCHEMES.values():  # compile
            for shape in QUICK_SHAPES:
                run(scheme, Study(*shape, 1e-2), 3)
        for shape in QUICK_SHAPES if quick else SHAPES:
            for alpha in ALPHAS_PER_FEATURE:
                rows += rows_of_problem(*shape, alpha, 10 if quick else N_ROUNDS)
    print(markdown(rows))
    if not quick:
        write_csv(RESULTS / "schemes.csv", rows)


if __name__ == "__main__":
    main()
