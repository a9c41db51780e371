"""Projections and proxes: optimal by a certificate, at any scale, warm or cold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solveh_banded

from suquan.prox import (
    SmoothNondecreasingProx,
    SmoothProx,
    project_bounded,
    project_bounded_nondecreasing,
    project_nondecreasing,
    prox_smooth_bounded_nondecreasing,
    prox_smooth_nondecreasing,
)

many = settings(max_examples=100, deadline=None, derandomize=True)


class Operator:
    """A prox with the set and penalty that its docstring displays."""

    def __init__(self, call, *, monotone=True, bounded=False, smooth=False):
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

    def error(self, f, z, smoothness):
        """Bound on the distance from the minimiser, over ‖z‖; in the ball f is the prox of z/(1 + μ)."""
        mu = multiplier_of_ball(f, z, self.weight(smoothness)) if self.bounded else 0.0
        assert not self.bounded or np.mean(f * f) <= 1.0 + 1e-13
        return minimiser_error(f, z / (1.0 + mu), self.weight(smoothness) / (1.0 + mu))


OPERATORS = {
    "nondecreasing": Operator(project_nondecreasing),
    "bounded": Operator(project_bounded, monotone=False, bounded=True),
    "bounded_nondecreasing": Operator(project_bounded_nondecreasing, bounded=True),
    "smooth": Operator(prox_smooth_nondecreasing, smooth=True),
    "smooth_bounded": Operator(prox_smooth_bounded_nondecreasing, bounded=True, smooth=True),
}
MONOTONE = {name: op for name, op in OPERATORS.items() if op.monotone}
every_operator = pytest.mark.parametrize("op", OPERATORS.values(), ids=OPERATORS)
monotone_operators = pytest.mark.parametrize("op", MONOTONE.values(), ids=MONOTONE)
bounded_or_not = pytest.mark.parametrize("bounded", [False, True])


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


def test_the_bound_sees_small_errors():
    z = long_vectors(200)["sorted + noise"]
    for smoothness in (0.0, 1e-3, 1.0, 1e3, 1e8):
        wrong = prox_smooth_nondecreasing(z, smoothness) + 1e-6 * np.arange(200) / 200
        assert minimiser_error(wrong, z, smoothness) > 1e-8
        assert minimiser_error(np.sort(z), z, smoothness) > 1e-3


# --------------------------------------------------------------------------------------- optimality


@monotone_operators
@many
@given(z=vectors(80), smoothness=smoothnesses, scale=powers_of_two)
def test_results_are_optimal_and_exactly_nondecreasing_at_any_scale(op, z, smoothness, scale):
    f = op(scale * z, smoothness)
    assert op.error(f, scale * z, smoothness) <= 1e-10
    if not op.bounded:
        assert_array_equal(f, scale * op(z, smoothness))


@every_operator
@many
@given(z=vectors(12), smoothness=smoothnesses, seed=st.integers(0, 2**32 - 1))
def test_no_feasible_neighbour_is_better(op, z, smoothness, seed):
    rng = np.random.default_rng(seed)
    f = op(z, smoothness)
    assert not op.bounded or np.mean(f * f) <= 1.0 + 1e-14
    value = op.objective(f, z, smoothness)
    for size in (1.0, 0.1, 1e-3):
        g = f + size * (op.random_member(rng, len(z)) - f)
        excess = op.objective(g, z, smoothness) - value
        # The displayed objective is 1-strongly convex.
        assert excess >= 0.5 * np.sum((g - f) ** 2) - 1e-12 * (1.0 + value + abs(excess))


@many
@given(z=vectors(60), smoothness=smoothnesses)
def test_smooth_prox_equals_slow_twin(z, smoothness):
    expected = solve_by_merging(z, smoothness)  # whose bands hold 1 + 4e8
    assert_allclose(prox_smooth_nondecreasing(z, smoothness), expected, rtol=0, atol=1e-7)


def test_known_values():
    assert_array_equal(project_nondecreasing([3.0, 1.0, 2.0]), [2.0, 2.0, 2.0])
    # Two entries: the step s minimises (s − 1)²/4 + c s², so s = 1/(1 + 4c).
    assert_allclose(prox_smooth_nondecreasing([0.0, 1.0], 0.25), [0.25, 0.75], rtol=1e-15)
    assert_allclose(prox_smooth_nondecreasing([1.0, 0.0], 7.0), [0.5, 0.5], rtol=1e-15)
    # A linear vector keeps its direction: (1 + μ)(−a, 0, a) + 2c(−a, 0, a) = (−4, 0, 4), a = √1.5.
    root = np.sqrt(1.5)
    f = prox_smooth_bounded_nondecreasing([-4.0, 0.0, 4.0], 0.5)
    assert_allclose(f, [-root, 0.0, root], atol=1e-15)
    for smoothness in (1e15, 1e100, 1e308):
        f = prox_smooth_nondecreasing(np.linspace(-1.0, 3.0, 50), smoothness)
        assert_allclose(f, np.full(50, 1.0), rtol=1e-12)


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
        unbounded = prox_smooth_nondecreasing(z, op.weight(1.0)) if op.monotone else z
        assert_allclose(f, unbounded, rtol=1e-14, atol=1e-323)


@pytest.mark.parametrize("smoothness", [0.01, 1.0, 1e3, 1e8])
def test_long_vectors_are_solved_to_rounding(smoothness):
    for name, z in long_vectors(20_000).items():
        for op in (OPERATORS["smooth"], OPERATORS["smooth_bounded"]):
            assert op.error(op(z, smoothness), z, smoothness) <= 1e-10, name


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


@bounded_or_not
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
        assert cold.n_evaluations <= 8
    after_warm, after_cold = np.mean(passes[1:], axis=0)
    assert after_warm <= 2.0
    assert after_warm < after_cold


@bounded_or_not
@many
@given(first=vectors(40), second=vectors(40), smoothness=smoothnesses, scale=st.floats(-6, 6))
def test_a_misleading_start_does_no_harm(bounded, first, second, smoothness, scale):
    prox = SmoothNondecreasingProx(bounded=bounded)
    prox(10.0**scale * first, smoothness)
    cold = SmoothNondecreasingProx(bounded=bounded)
    assert_allclose(prox(second, smoothness), cold(second, smoothness), rtol=0, atol=1e-12)


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


# ------------------------------------------------------------------------------------------ errors


@every_operator
@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([1.0, np.nan, 2.0], "1 of its 3 values are NaN or infinite"),
        ([np.inf, -np.inf], "2 of its 2 values are NaN or infinite"),
        ([], r"at least one value, but has shape \(0,\)"),
        (np.ones((2, 3)), r"has shape \(2, 3\)"),
    ],
)
def test_bad_vectors_are_refused(op, z, message):
    with pytest.raises(ValueError, match=message):
        op(z, 1.0)


@pytest.mark.parametrize("smoothness", [-1.0, np.nan, np.inf, "much", None, [1.0]])
def test_bad_smoothness_is_refused(smoothness):
    with pytest.raises(ValueError, match="smoothness must be"):
        prox_smooth_bounded_nondecreasing([1.0, 2.0], smoothness)
