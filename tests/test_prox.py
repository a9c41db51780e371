import contextlib
import os
import subprocess
import sys
import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solveh_banded
from scipy.optimize import nnls

from suquan import SuquanClassifier
from suquan._kernels import prox as kernels
from suquan.prox import (
    SmoothNondecreasingProx,
    SmoothProx,
    project_bounded,
    project_bounded_nondecreasing,
    project_nondecreasing,
    prox_smooth_bounded_nondecreasing,
    prox_smooth_nondecreasing,
)

few = settings(max_examples=30, deadline=None, derandomize=True)
many = settings(max_examples=100, deadline=None, derandomize=True)


# ------------------------------------------------------------------- operators, named by their set


class Operator:
    """A prox with the set and penalty its docstring displays."""

    def __init__(self, call, *, monotone, bounded, smooth):
        self.call, self.monotone, self.bounded, self.smooth = call, monotone, bounded, smooth

    def __call__(self, z, smoothness):
        return self.call(z, smoothness) if self.smooth else self.call(z)

    def weight(self, smoothness):
        return smoothness if self.smooth else 0.0

    def objective(self, f, z, smoothness):
        penalty = self.weight(smoothness) * np.sum(np.diff(f) ** 2)
        return 0.5 * np.sum((f - z) ** 2) + penalty

    def random_member(self, rng, p):
        f = rng.normal(size=p) * rng.exponential()
        f = np.sort(f) if self.monotone else f
        return f / max(1.0, np.sqrt(np.mean(f**2))) if self.bounded else f


OPERATORS = {
    "nondecreasing": Operator(project_nondecreasing, monotone=True, bounded=False, smooth=False),
    "bounded": Operator(project_bounded, monotone=False, bounded=True, smooth=False),
    "bounded_nondecreasing": Operator(
        project_bounded_nondecreasing, monotone=True, bounded=True, smooth=False
    ),
    "smooth": Operator(prox_smooth_nondecreasing, monotone=True, bounded=False, smooth=True),
    "smooth_bounded": Operator(
        prox_smooth_bounded_nondecreasing, monotone=True, bounded=True, smooth=True
    ),
}
every_operator = pytest.mark.parametrize("op", OPERATORS.values(), ids=OPERATORS)
monotone_operators = pytest.mark.parametrize(
    "op", [op for op in OPERATORS.values() if op.monotone], ids=[*OPERATORS][:1] + [*OPERATORS][2:]
)
SMOOTH, SMOOTH_BOUNDED = OPERATORS["smooth"], OPERATORS["smooth_bounded"]


# ------------------------------------------------------------------------------------------ inputs


@st.composite
def vectors(draw, max_size=24):
    """Unit-scale vectors: any, constant, decreasing, with ties, walks; often of length 1 or 2."""
    size = draw(st.one_of(st.integers(1, 2), st.integers(1, max_size)))
    z = np.array(draw(st.lists(st.floats(-3, 3, width=32), min_size=size, max_size=size)))
    kind = draw(st.sampled_from(["any", "constant", "decreasing", "ties", "walk"]))
    return {
        "any": lambda: z,
        "constant": lambda: np.full(size, z[0]),
        "decreasing": lambda: np.sort(z)[::-1].copy(),
        "ties": lambda: np.round(z),
        "walk": lambda: np.cumsum(z),
    }[kind]()


smoothnesses = st.one_of(st.just(0.0), st.floats(-6, 8).map(lambda e: 10.0**e))
powers_of_two = st.integers(-498, 498).map(lambda e: 2.0**e)  # 1e-150 to 1e150


def long_vectors(p, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=p)
    return {
        "noise": noise,
        "sorted + noise": np.sort(rng.normal(size=p)) + 0.1 * noise,
        "walk": np.cumsum(noise),
        "rising walk": np.cumsum(noise + 0.3),
        "decreasing": -np.arange(p) / p,
        "late drop": np.append(np.arange(p - 1) / p, -1e3),
        "wave": np.sin(np.linspace(0, 40, p)) + np.linspace(0, 4, p),
    }


# -------------------------------------------------------------------------------------- references


def solve_tightly(problem):
    """Solve to the smallest tolerance at which Clarabel reports success."""
    for tol in (1e-12, 1e-11, 1e-10, 1e-9, 1e-8):
        tols = dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], tol)
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            problem.solve(solver=cp.CLARABEL, **tols)
            if problem.status == cp.OPTIMAL:
                return
    reject()  # it stalls on a few small, degenerate problems, which the slow twin covers


def solve_by_clarabel(z, smoothness, monotone=True):
    """The unbounded problem by an interior-point solver, in the scaled steps of f, then polished.

    Where a step and its multiplier are both 0 the solver's error is the root of its gap, 1e-6 to
    1e-4. So Lawson and Hanson's active-set method, which is exact, has the last word.
    """
    p = len(z)
    unit = 1.0 / np.sqrt(1.0 + 2.0 * smoothness)
    design = np.hstack([np.ones((p, 1)), np.tril(np.full((p, p), unit), -1)[:, : p - 1]])
    rough = np.diag(np.append(0.0, np.full(p - 1, np.sqrt(2.0 * smoothness) * unit)))
    x = cp.Variable(p)
    objective = 0.5 * cp.sum_squares(design @ x - z) + 0.5 * cp.sum_squares(rough @ x)
    problem = cp.Problem(cp.Minimize(objective), [x[1:] >= 0] if monotone and p > 1 else [])
    solve_tightly(problem)
    if not monotone:
        return design @ x.value
    floor = z.min() - 1.0  # f ≥ min z, so above the floor the first entry's sign is no constraint
    f = floor + design @ nnls(np.vstack([design, rough]), np.append(z - floor, np.zeros(p)))[0]
    assert_allclose(f, design @ x.value, rtol=0, atol=1e-3)
    return f


def solve_by_merging(z, smoothness):
    """The unbounded problem by the slow twin: from single entries, merge pairs that decrease."""
    starts = np.arange(len(z))
    while True:
        sizes = np.diff(np.append(starts, len(z))).astype(float)
        laplacian = np.zeros((2, len(starts)))
        laplacian[0, 1:] = -1.0
        laplacian[1, 1:] += 1.0
        laplacian[1, :-1] += 1.0
        bands = 2.0 * smoothness * laplacian
        bands[1] += sizes
        sums = np.add.reduceat(z, starts)
        f = solveh_banded(bands, sums) if len(starts) > 1 else sums / sizes
        keep = np.append(True, np.diff(f) >= 0.0)
        if keep.all():
            return np.repeat(f, sizes.astype(int))
        starts = starts[keep]


def multiplier_of_ball(f, z, smoothness):
    """μ of the constraint ½(‖f‖² − p) ≤ 0: the KKT conditions, multiplied by f and summed."""
    pull = z @ f - f @ f - 2.0 * smoothness * np.sum(np.diff(f) ** 2)
    return max(0.0, pull / (f @ f)) if np.mean(f * f) > 1.0 - 1e-12 else 0.0


def minimiser_error(f, z, smoothness):
    """Bound on ‖f − f*‖ / ‖z‖ for the smooth, non-decreasing prox f*: a scale-free KKT residual.

    For any fluxes s, weak duality and strong convexity give ½‖f − f*‖² ≤ gap(f, s), with d = Df and

        gap(f, s) = ½‖f − z + Dᵀs‖² + Σ_j [c d_j² + max(s_j, 0)²/(4c) − s_j d_j],

    zero exactly where the KKT conditions hold. Two choices of s: u = cumsum(f − z), which makes the
    first term vanish and forgives errors of f that only a huge c turns into large fluxes; and 2c d
    where d > 0 with min(u, 0) where d = 0, which makes the second vanish and is good for small c.
    Each is a bound; the smaller one counts. Sums are in extended precision: they are not on trial.
    """
    assert np.all(np.diff(f) >= 0.0)
    peak = np.abs(z).max() or 1.0
    f, z, c = (f / peak).astype(np.longdouble), (z / peak).astype(np.longdouble), smoothness
    u, d = np.cumsum(f - z), np.diff(f)
    total, u = u[-1], u[:-1]
    slack = np.maximum(-u, 0) * d
    gap = (
        0.5 * total**2 + np.sum(np.square(np.maximum(u, 0) - 2 * c * d) / (4 * c) + slack)
        if c
        else np.inf
    )
    s = np.where(d > 0, 2 * c * d, np.minimum(u, 0))
    snapped_gap = 0.5 * np.sum(np.square(f - z - np.diff(s, prepend=0, append=0)))
    return float(np.sqrt(2 * min(gap, snapped_gap)) / (np.sqrt(np.sum(z * z)) or 1.0))


def bounded_minimiser_error(f, z, smoothness):
    """The same in the ball: f must be the prox of z/(1 + μ) with weight c/(1 + μ)."""
    mu = multiplier_of_ball(f, z, smoothness)
    assert np.mean(f * f) <= 1.0 + 1e-13
    return minimiser_error(f, z / (1.0 + mu), smoothness / (1.0 + mu))


def test_residual_sees_small_errors():
    z = long_vectors(200)["sorted + noise"]
    for smoothness in (0.0, 1e-3, 1.0, 1e3, 1e8):
        f = prox_smooth_nondecreasing(z, smoothness)
        wrong = f + 1e-6 * np.arange(200) / 200
        assert minimiser_error(f, z, smoothness) < 1e-11
        assert minimiser_error(wrong, z, smoothness) > 1e-8
        assert minimiser_error(np.sort(z), z, smoothness) > 1e-3


# -------------------------------------------------------------------------- against the references


@pytest.mark.parametrize("name", ["nondecreasing", "smooth"])
@few
@given(z=vectors(), smoothness=smoothnesses)
def test_unbounded_prox_equals_convex_solver(name, z, smoothness):
    op = OPERATORS[name]
    f = op(z, smoothness)
    reference = solve_by_clarabel(z, op.weight(smoothness))
    assert_allclose(f, reference, rtol=0, atol=1e-7)
    value, bound = op.objective(f, z, smoothness), op.objective(reference, z, smoothness)
    assert abs(value - bound) <= 1e-10 * max(1.0, value)


@pytest.mark.parametrize("name", ["bounded", "bounded_nondecreasing", "smooth_bounded"])
@few
@given(z=vectors(), smoothness=smoothnesses)
def test_bounded_prox_equals_convex_solver(name, z, smoothness):
    # Clarabel is off by 1e-6 where the ball is a cone constraint, by 1e-10 on a quadratic program.
    # So it minimises the Lagrangian for a multiplier: by weak duality a lower bound whatever the
    # multiplier, which our feasible f must reach.
    op = OPERATORS[name]
    f, c = op(z, smoothness), op.weight(smoothness)
    assert np.mean(f * f) <= 1.0 + 1e-14
    mu = multiplier_of_ball(f, z, c)
    reference = solve_by_clarabel(z / (1.0 + mu), c / (1.0 + mu), monotone=op.monotone)
    assert_allclose(f, reference, rtol=0, atol=1e-7)
    bound = op.objective(reference, z, smoothness) + 0.5 * mu * (reference @ reference - len(z))
    value = op.objective(f, z, smoothness)
    assert abs(value - bound) <= 1e-10 * max(1.0, value)


@pytest.mark.parametrize("smoothness", [0.0, 0.1, 10.0, 1e4])
def test_bounded_prox_is_no_worse_than_a_conic_solver(smoothness):
    z = 2.0 * np.random.default_rng(3).normal(size=20) + np.linspace(-2, 2, 20)
    f = cp.Variable(20)
    objective = 0.5 * cp.sum_squares(f - z) + smoothness * cp.sum_squares(cp.diff(f))
    problem = cp.Problem(cp.Minimize(objective), [cp.diff(f) >= 0, cp.norm(f) <= np.sqrt(20.0)])
    problem.solve(solver=cp.CLARABEL)
    ours = prox_smooth_bounded_nondecreasing(z, smoothness)
    assert_allclose(ours, f.value, rtol=0, atol=1e-4)
    assert SMOOTH_BOUNDED.objective(ours, z, smoothness) <= problem.value + 1e-7


@many
@given(z=vectors(60), smoothness=smoothnesses)
def test_smooth_prox_equals_slow_twin(z, smoothness):
    assert_allclose(
        prox_smooth_nondecreasing(z, smoothness),
        solve_by_merging(z, smoothness),
        rtol=0,
        atol=1e-7,  # of the twin, whose bands hold 1 + 4e8
    )


@many
@given(z=vectors(60))
def test_no_smoothness_leaves_the_projections(z):
    assert_allclose(prox_smooth_nondecreasing(z, 0.0), project_nondecreasing(z), atol=1e-14)
    assert_allclose(
        prox_smooth_bounded_nondecreasing(z, 0.0), project_bounded_nondecreasing(z), atol=1e-13
    )


def test_known_values():
    assert_array_equal(project_nondecreasing([3.0, 1.0, 2.0]), [2.0, 2.0, 2.0])
    # Two entries: the step s minimises (s − 1)²/4 + c s², so s = 1/(1 + 4c).
    assert_allclose(prox_smooth_nondecreasing([0.0, 1.0], 0.25), [0.25, 0.75], rtol=1e-15)
    assert_allclose(prox_smooth_nondecreasing([1.0, 0.0], 7.0), [0.5, 0.5], rtol=1e-15)
    # A linear vector keeps its direction: (1 + μ)(−a, 0, a) + 2c(−a, 0, a) = (−4, 0, 4), a = √1.5.
    root = np.sqrt(1.5)
    f = prox_smooth_bounded_nondecreasing([-4.0, 0.0, 4.0], 0.5)
    assert_allclose(f, [-root, 0.0, root], atol=1e-15)


@every_operator
@pytest.mark.parametrize("value", [0.0, 0.1, -0.7])
@pytest.mark.parametrize("p", [1, 2, 1000])
def test_constants_inside_the_ball_stay_as_they_are(op, value, p):
    for smoothness in (0.0, 1.0, 1e8, 1e300):
        assert_allclose(op(np.full(p, value), smoothness), np.full(p, value), rtol=1e-15)


# --------------------------------------------------------------------------- optimality, any scale


@many
@given(z=vectors(80), smoothness=smoothnesses, scale=powers_of_two)
def test_smooth_prox_is_optimal_at_any_scale(z, smoothness, scale):
    f = prox_smooth_nondecreasing(scale * z, smoothness)
    assert minimiser_error(f, scale * z, smoothness) <= 1e-10


@many
@given(z=vectors(80), smoothness=smoothnesses, scale=powers_of_two)
def test_smooth_bounded_prox_is_optimal_at_any_scale(z, smoothness, scale):
    f = prox_smooth_bounded_nondecreasing(scale * z, smoothness)
    assert bounded_minimiser_error(f, scale * z, smoothness) <= 1e-10


@many
@given(z=vectors(80), scale=powers_of_two)
def test_projections_are_optimal_at_any_scale(z, scale):
    assert minimiser_error(project_nondecreasing(scale * z), scale * z, 0.0) <= 1e-10
    assert (
        bounded_minimiser_error(project_bounded_nondecreasing(scale * z), scale * z, 0.0) <= 1e-10
    )


@many
@given(z=vectors(80), smoothness=smoothnesses, scale=powers_of_two)
def test_unbounded_prox_commutes_with_powers_of_two(z, smoothness, scale):
    for op in (OPERATORS["nondecreasing"], SMOOTH):
        assert_array_equal(op(scale * z, smoothness), scale * op(z, smoothness))


@every_operator
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-150, 1e150, 1e300])
def test_nothing_overflows_or_underflows(op, scale):
    z = scale * np.array([0.5, -1.0, 0.25, 1.0, 1.0])
    f = op(z, 1.0)
    assert np.all(np.isfinite(f))
    assert np.any(f != 0.0)
    if op.bounded and scale > 1.0:
        assert_allclose(np.mean(f * f), 1.0, rtol=1e-13)
    if op.bounded and scale < 1.0:
        unbounded = SMOOTH(z, op.weight(1.0)) if op.monotone else z
        assert_allclose(f, unbounded, rtol=1e-14, atol=1e-323)


@pytest.mark.parametrize("smoothness", [0.0, 1e-300, 1e-9, 1.0])
def test_many_large_blocks_do_not_overflow(smoothness):
    """Eliminating a block multiplies two numbers by its size: here 1000 to the power 150."""
    z = (np.arange(300.0)[:, None] - np.linspace(0.0, 0.5, 1000)).ravel()
    assert minimiser_error(prox_smooth_nondecreasing(z, smoothness), z, smoothness) <= 1e-10


@pytest.mark.parametrize("smoothness", [1e15, 1e100, 1e308])
def test_huge_smoothness_leaves_the_mean(smoothness):
    z = np.linspace(-1.0, 3.0, 50)
    assert_allclose(prox_smooth_nondecreasing(z, smoothness), np.full(50, 1.0), rtol=1e-12)


def check_long_vectors(p):
    for name, z in long_vectors(p).items():
        for smoothness in (0.01, 1.0, 1e3, 1e8):
            f = prox_smooth_nondecreasing(z, smoothness)
            assert minimiser_error(f, z, smoothness) <= 1e-10, (name, smoothness)
            assert abs(np.mean(f - z)) <= 1e-13 * np.abs(z).max(), (name, smoothness)
            f = prox_smooth_bounded_nondecreasing(z, smoothness)
            assert bounded_minimiser_error(f, z, smoothness) <= 1e-10, (name, smoothness)


def test_long_vectors_are_solved_to_rounding():
    check_long_vectors(20_000)


@pytest.mark.slow
def test_very_long_vectors_are_solved_to_rounding():
    check_long_vectors(200_000)


def test_a_random_walk_of_200_000_is_solved_to_rounding():
    z = long_vectors(200_000, seed=1)["walk"]
    for smoothness in (1.0, 1e4):
        f = prox_smooth_nondecreasing(z, smoothness)
        assert minimiser_error(f, z, smoothness) <= 1e-10


# -------------------------------------------------------------------------- properties of any prox


@monotone_operators
@many
@given(z=vectors(60), smoothness=smoothnesses)
def test_results_are_exactly_nondecreasing(op, z, smoothness):
    assert np.all(np.diff(op(z, smoothness)) >= 0.0)


@every_operator
@many
@given(z=vectors(12), smoothness=smoothnesses, seed=st.integers(0, 2**32 - 1))
def test_no_feasible_neighbour_is_better(op, z, smoothness, seed):
    rng = np.random.default_rng(seed)
    f = op(z, smoothness)
    value = op.objective(f, z, smoothness)
    for size in (1.0, 0.1, 1e-3):
        g = f + size * (op.random_member(rng, len(z)) - f)
        excess = op.objective(g, z, smoothness) - value
        # The displayed objective is 1-strongly convex.
        assert excess >= 0.5 * np.sum((g - f) ** 2) - 1e-12 * (1.0 + value + abs(excess))


@every_operator
@many
@given(a=vectors(12), b=vectors(12), smoothness=smoothnesses)
def test_operators_are_firmly_nonexpansive(op, a, b, smoothness):
    p = min(len(a), len(b))
    a, b = a[:p], b[:p]
    moved = op(a, smoothness) - op(b, smoothness)
    assert moved @ moved <= moved @ (a - b) + 1e-12


@many
@given(z=vectors(60))
def test_projections_leave_members_alone(z):
    for op in OPERATORS.values():
        if not op.smooth:
            f = op(z, 0.0)
            assert_allclose(op(f, 0.0), f, rtol=1e-15, atol=1e-15)


@every_operator
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_input_stays_and_result_is_new_float64(op, dtype):
    z = np.array([0, 1, 0, -1, 2, 0, 3, 3], dtype=dtype)[::2]
    before = z.copy()
    z.flags.writeable = False
    f = op(z, 1.0)
    assert_array_equal(z, before)
    assert f.dtype == np.float64
    assert not np.shares_memory(f, z)
    assert_array_equal(f, op(z.astype(np.float64).tolist(), 1.0))


# ------------------------------------------------------------------------------------- warm starts


@pytest.mark.parametrize("smoothness", [0.0, 0.1, 100.0])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_a_vector_that_pools_to_zero_after_one_that_left_the_ball(smoothness, scale):
    prox = SmoothNondecreasingProx(bounded=True)
    prox([-25.0, 50.0], smoothness)
    assert_array_equal(prox([1.5 * scale, -1.5 * scale], smoothness), np.zeros(2))


@pytest.mark.parametrize("bounded", [False, True])
def test_warm_starts_change_nothing_but_the_work(bounded):
    rng = np.random.default_rng(5)
    warm = SmoothNondecreasingProx(bounded=bounded)
    z = 2.0 * np.sort(rng.normal(size=2000)) + 0.1 * rng.normal(size=2000)
    passes = []
    for _ in range(10):
        z = z + 1e-6 * rng.normal(size=2000)
        cold = SmoothNondecreasingProx(bounded=bounded)
        assert_allclose(warm(z, 3.0), cold(z, 3.0), rtol=0, atol=1e-13)
        passes.append((warm.n_passes / warm.n_evaluations, cold.n_passes / cold.n_evaluations))
        assert warm.n_evaluations <= 3
    assert np.mean(passes[1:], axis=0)[0] <= 2.0
    assert np.mean(passes[1:], axis=0)[0] < np.mean(passes[1:], axis=0)[1]


@pytest.mark.parametrize("bounded", [False, True])
@many
@given(first=vectors(40), second=vectors(40), smoothness=smoothnesses, scale=st.floats(-6, 6))
def test_a_misleading_start_does_no_harm(bounded, first, second, smoothness, scale):
    prox = SmoothNondecreasingProx(bounded=bounded)
    prox(10.0**scale * first, smoothness)
    cold = SmoothNondecreasingProx(bounded=bounded)
    assert_allclose(prox(second, smoothness), cold(second, smoothness), rtol=0, atol=1e-12)


@many
@given(z=vectors(40), smoothness=smoothnesses, cuts=st.sets(st.integers(1, 39)))
def test_any_blocks_lead_to_the_minimiser(z, smoothness, cuts):
    starts = np.array([0, *sorted(c for c in cuts if c < len(z)), len(z)])
    starts, values, passes, finished = kernels.find_blocks(z, 2.0 * smoothness, starts, len(z) + 1)
    assert finished
    assert passes <= len(z) + 1
    f = np.repeat(values, np.diff(starts))
    assert minimiser_error(f, z, smoothness) <= 1e-10


@many
@given(z=vectors(40), smoothness=smoothnesses)
def test_smoothing_without_an_order_solves_its_equations(z, smoothness):
    f = SmoothProx()(z, smoothness)
    flux = 2.0 * smoothness * np.diff(f)
    residual = f - z - np.diff(flux, prepend=0.0, append=0.0)
    assert np.abs(residual).max() <= 1e-12 * (1.0 + smoothness)
    bounded = SmoothProx(bounded=True)(z, smoothness)
    mu = multiplier_of_ball(bounded, z, smoothness)
    assert np.mean(bounded**2) <= 1.0 + 1e-13
    assert_allclose(bounded, SmoothProx()(z / (1 + mu), smoothness / (1 + mu)), atol=1e-9)


# ------------------------------------------------------------------------- the multiplier of the ball


def wild_vectors(rng):
    """Vectors of any scale and kind, with a smoothness of any size."""
    p = int(rng.choice([1, 2, 2, 3, 7, 60]))
    z = rng.choice([0.0, 1.0]) * rng.normal() + [
        rng.normal(size=p), np.zeros(p), np.sort(rng.normal(size=p)),
        np.round(rng.normal(size=p)), np.cumsum(rng.normal(size=p)), rng.standard_cauchy(p),
    ][rng.integers(6)]  # fmt: skip
    with np.errstate(over="ignore"):
        z = np.clip(z * 10.0 ** rng.choice([0.0, rng.uniform(-300, 300)]), -1e308, 1e308)
    return z, float(rng.choice([0.0, 10.0 ** rng.uniform(-300, 300), 10.0 ** rng.uniform(-6, 8)]))


@pytest.mark.parametrize("seed", range(4))
def test_no_input_ends_in_an_arithmetic_error(seed):
    rng = np.random.default_rng(seed)
    for _ in range(150):
        prox = SmoothNondecreasingProx(bounded=True)
        z, smoothness = wild_vectors(rng)
        for _ in range(3):  # warm starts, misleading ones too
            f = prox(z, smoothness)
            assert np.all(np.isfinite(f))
            assert np.all(np.diff(f) >= 0.0)
            assert np.mean(f * f) <= 1.0 + 1e-13
            assert prox.n_evaluations <= 30
            other, other_smoothness = wild_vectors(rng)
            if len(other) == len(z):
                z, smoothness = other, other_smoothness
            else:
                z = z * (1.0 + 1e-9 * rng.normal())


@pytest.mark.parametrize("slope", [0.0, -1.0, np.nan, 1e-300])
def test_a_useless_derivative_leaves_the_search_to_halving(monkeypatch, slope):
    """Rounding may spoil it; the brackets then close in."""
    z = 5.0 * long_vectors(200)["sorted + noise"]
    expected = prox_smooth_bounded_nondecreasing(z, 3.0)
    monkeypatch.setattr(SmoothNondecreasingProx, "_slope", lambda *_: slope)
    assert_allclose(prox_smooth_bounded_nondecreasing(z, 3.0), expected, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_a_joint_fit_whose_derivative_vanished_is_solved():
    rng = np.random.default_rng(3)
    n, p = 225, 22283
    X = rng.standard_normal((n, p)) + rng.standard_normal((n, 5)) @ rng.standard_normal((5, p))
    y = X[:, :20].sum(1) + 3 * rng.standard_normal(n) > 0
    model = SuquanClassifier("joint", alpha=1e-2, random_state=0).fit(X, y)
    assert np.all(np.diff(model.objective_history_) <= 1e-5 * model.objective_history_[0])


@pytest.mark.parametrize("name", ["noise", "walk", "late drop", "wave"])
def test_few_passes_suffice_from_a_cold_start(name):
    z = long_vectors(20_000)[name]
    prox = SmoothNondecreasingProx()
    for exponent in range(-4, 9, 2):
        prox.reset()
        prox(z, 10.0**exponent)
        assert prox.n_passes <= 15


@pytest.mark.parametrize("name", ["noise", "sorted + noise", "walk", "wave"])
def test_few_evaluations_find_the_multiplier(name):
    z = 5.0 * long_vectors(2000)[name] + np.linspace(-5.0, 5.0, 2000)
    prox = SmoothNondecreasingProx(bounded=True)
    for exponent in range(-4, 9, 2):
        prox.reset()
        prox(z, 10.0**exponent)
        assert prox.n_evaluations <= 8


def test_a_new_length_starts_afresh():
    prox = SmoothNondecreasingProx()
    prox([3.0, 1.0, 2.0], 1.0)
    assert_array_equal(prox([0.0, 1.0], 1.0), prox_smooth_nondecreasing([0.0, 1.0], 1.0))


# ------------------------------------------------------------------------------------------ errors


@every_operator
@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([1.0, np.nan, 2.0], "1 of its 3 values are NaN or infinite"),
        ([np.inf, -np.inf], "2 of its 2 values are NaN or infinite"),
        ([], r"at least one value, but has shape \(0,\)"),
        (1.0, r"has shape \(\)"),
        (np.ones((2, 3)), r"has shape \(2, 3\)"),
    ],
)
def test_bad_vectors_are_refused(op, z, message):
    with pytest.raises(ValueError, match=message):
        op(z, 1.0)


@pytest.mark.parametrize("op", [SMOOTH, SMOOTH_BOUNDED], ids=["smooth", "smooth_bounded"])
@pytest.mark.parametrize("smoothness", [-1.0, np.nan, np.inf, "much", None, [1.0]])
def test_bad_smoothness_is_refused(op, smoothness):
    with pytest.raises(ValueError, match="smoothness must be a finite number ≥ 0, but is"):
        op([1.0, 2.0], smoothness)


PROXES = """
import numpy as np
from suquan.prox import SmoothNondecreasingProx

rng = np.random.default_rng(0)
for bounded in (False, True):
    prox = SmoothNondecreasingProx(bounded=bounded)
    for k in range(20):
        z = 2.0 * np.sort(rng.normal(size=60)) + 0.3 * rng.normal(size=60)
        print(prox(z, 10.0 ** (k % 6 - 2)).tobytes().hex())
"""


def test_kernels_give_the_same_bits_compiled_and_loaded(tmp_path):
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROXES],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(done.stdout)
    assert list(tmp_path.rglob("*.nbi"))  # the second process had something to load
    assert found[0] == found[1]
