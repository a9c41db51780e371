"""The set's side of the f-step: prox, faces, and the conjugate that certifies."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solveh_banded

from suquan.prox import (
    SmoothNondecreasingProx,
    project_bounded,
    project_bounded_nondecreasing,
    project_nondecreasing,
)

Vector = NDArray[np.float64]
TargetSet = Literal["f0", "bnd", "spav", "joint"]

FLATTEST = 1e-9  # curvature, in units of the smoothness, that a step treats as none
_ON_SPHERE = 1.0 - 1e-9  # mean square from which the bound counts as active
_REACH = 4.0  # norm, in units of f's, up to which a gap without bound and smoothness is certified


class Face(NamedTuple):
    """Where a target lies in its set: the subspace on which the prox is smooth, and its derivative there.

    Around z the prox moves in the targets that are constant on the blocks, tangent to the sphere where that
    is active; its derivative there is the inverse of S = ``stretch``·diag(sizes) + 2c·Laplacian of the blocks.
    """

    starts: NDArray[np.int64]
    sizes: Vector
    stretch: float  # 1 + the multiplier of the bound
    on_sphere: bool
    f_sums: Vector  # f summed over the blocks: the sphere's normal


class Target:
    """The set's side: prox, faces, and the conjugate that certifies."""

    def __init__(self, name, K, smoothness):
        if name not in ("f0", "bnd", "spav", "joint"):
            raise ValueError(f"target_set is {name!r}; choose 'f0', 'bnd', 'spav' or 'joint'.")
        self.K, self.smoothness = K, smoothness
        self.monotone, self.bounded = name != "f0", name != "spav"
        self._prox = SmoothNondecreasingProx(bounded=self.bounded)
        self._unbounded_prox = SmoothNondecreasingProx()

    def penalty(self, f):
        """Smoothness penalty of f."""
        return self.smoothness * float(np.sum(np.diff(f) ** 2)) if self.smoothness else 0.0

    def make_feasible(self, f):
        """Centre and project, unless f is in the set already."""
        f = np.array(f, dtype=np.float64)
        f -= f.mean()
        if self.monotone and np.any(np.diff(f) < 0.0):
            f = project_nondecreasing(f)
            f -= f.mean()
        return project_bounded(f) if self.bounded else f

    def prox(self, z, step):
        """Minimiser of ½‖f − z‖² + step · penalty(f) over the set, for a centred z."""
        c = step * self.smoothness
        if self.monotone and c > 0.0:
            f = self._prox(z, c)
        elif self.monotone:
            f = project_bounded_nondecreasing(z) if self.bounded else project_nondecreasing(z)
        else:
            f = _smooth_bounded(z, c)
        return self.centred(f)

    def between(self, f, x, t):
        """F + t (x − f), in the set to the last bit."""
        if t == 1.0:
            return x
        f = f + t * (x - f)
        return self.centred(np.maximum.accumulate(f) if self.monotone else f)

    def centred(self, f):
        """Subtract the mean, and project on the bound."""
        # Rounding leaves a mean of order eps; subtracting it keeps the order of the entries.
        f = f - f.mean()
        return project_bounded(f) if self.bounded else f

    def _free_prox(self, z, c):
        """The prox with weight c, without the bound."""
        return self._unbounded_prox(z, c) if self.monotone else _smooth(z, c)

    def face(self, f, z, step):
        """Face of f = prox(z, step)."""
        c = step * self.smoothness
        cuts = np.flatnonzero(np.diff(f)) + 1 if self.monotone else np.arange(1, self.K)
        starts = np.concatenate([[0], cuts])
        sizes = np.diff(starts, append=self.K).astype(np.float64)
        stretch, norm2 = 1.0, float(f @ f)
        if self.bounded and norm2 >= self.K * _ON_SPHERE:
            stretch = max(1.0, float(f @ z - 2.0 * c * np.sum(np.diff(f) ** 2)) / norm2)
        on_sphere = stretch > 1.0 + 1e-12
        return Face(starts, sizes, stretch, on_sphere, f[starts] * sizes)

    def stiffness(self, face, c):
        """S of the face as a symmetric band: row 0 the off-diagonal, row 1 the diagonal."""
        S = np.zeros((2, len(face.starts)))
        S[1] = face.stretch * face.sizes
        if c > 0.0:
            S[1, :-1] += 2.0 * c
            S[1, 1:] += 2.0 * c
            S[0, 1:] = -2.0 * c
        return S

    def conjugate(self, g, multiplier, norm):
        """Upper bound on max g·f − penalty(f) over the set, tight at the bound's multiplier.

        The maximum over the cone and the ball is min over μ ≥ 0 of μK/2 + max over the cone of
        g·f − penalty(f) − (μ/2)‖f‖². Without smoothness that is √K times the norm of g's projection on the
        cone; with it, μ = 0 separates over the steps f[j+1] − f[j], and every μ gives a bound.
        """
        c = self.smoothness
        radius = np.sqrt(self.K) if self.bounded else _REACH * max(np.sqrt(self.K), norm)
        bounds = []
        if self.bounded or c == 0.0:
            v = project_nondecreasing(g) if self.monotone else g
            bounds.append(radius * float(np.linalg.norm(v)))
        if c > 0.0:
            pull = -np.cumsum(g)[:-1]
            if self.monotone:
                pull = np.maximum(pull, 0.0)
            bounds.append(float(pull @ pull) / (4.0 * c))
        if c > 0.0 and self.bounded and multiplier > 0.0:
            f = self._free_prox(g / multiplier, c / multiplier)
            excess = float(f @ f) - self.K
            bounds.append(float(g @ f) - self.penalty(f) - 0.5 * multiplier * excess)
        return min(bounds)


def _smooth(z: Vector, c: float) -> Vector:
    """Minimiser of ½‖f − z‖² + c Σ (f[j+1] − f[j])².

    Solved for the differences, whose matrix stays regular however large c is.
    """
    if c == 0.0 or len(z) == 1:
        return z.copy()
    band = np.empty((2, len(z) - 1))
    band[0], band[1] = -1.0, 2.0 + 0.5 / c
    steps = np.diff(z) * (0.5 / c)
    steps = solveh_banded(band, steps) if len(steps) > 1 else steps / band[1]
    f = np.append(0.0, np.cumsum(steps))
    return f + (z.mean() - f.mean())


def _smooth_bounded(z: Vector, c: float) -> Vector:
    """The same with mean square at most 1: a Newton iteration for the bound's multiplier."""
    if c == 0.0:
        return project_bounded(z)
    stretch, f = 1.0, _smooth(z, c)
    for _ in range(60):
        norm2, K = float(f @ f), len(z)
        if norm2 <= K * (1.0 + 1e-14):
            break
        # 1/‖f‖ is almost linear in the multiplier, and concave: steps from the left never overshoot.
        slope = float(f @ _smooth(f, c / stretch)) / stretch
        stretch += norm2 / slope * (np.sqrt(norm2 / K) - 1.0)
        f = _smooth(z / stretch, c / stretch)
    return project_bounded(f)
