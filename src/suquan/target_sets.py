"""Sets of target quantiles: all that the f-step asks of a set is one class here.

A set holds vectors f of K quantiles with sum 0, and knows its penalty, smoothness · Σ (f[j+1] − f[j])².
:class:`TargetSet` is the protocol: :func:`suquan.solvers.target.solve_target` takes an object of any class that
follows it, and the estimators take one as ``method=``. :class:`ConvexTargets` supplies everything but the prox:

>>> from suquan.prox import prox_smooth_bounded_nondecreasing
>>> from suquan.target_sets import ConvexTargets
>>> class Nonincreasing(ConvexTargets):
...     name = "nonincreasing"
...     def prox(self, z, step):
...         return -prox_smooth_bounded_nondecreasing(-z, step * self.smoothness)
>>> Nonincreasing().make_feasible([1.0, 0.0, 0.5, -1.5])
array([ 1.  ,  0.25,  0.25, -1.5 ])
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suquan.prox import (
    SmoothNondecreasingProx,
    SmoothProx,
    project_bounded,
    project_bounded_nondecreasing,
    project_nondecreasing,
)

__all__ = [
    "TARGET_SETS",
    "Bounded",
    "BoundedNondecreasing",
    "ConvexTargets",
    "Face",
    "JointNondecreasing",
    "Nondecreasing",
    "TargetSet",
    "find_target_set",
]

Vector = NDArray[np.float64]

_ON_SPHERE = 1.0 - 1e-9  # mean square from which the bound counts as active
# Steps, in units of the radius over the norm of g, that the conjugate's maximiser is found with: projections
# are exact however long the step is, but smoothing by so much leaves few digits.
_FAR, _FAR_SMOOTH = 1e15, 1e8


class Face(NamedTuple):
    """Where a target lies in its set: the subspace on which the prox is smooth, and its derivative there.

    Around z the prox moves in the targets that are constant on the blocks, tangent to the sphere where that
    is active; its derivative there is the inverse of S = ``stretch``·diag(sizes) + 2c·Laplacian of the blocks.

    Attributes
    ----------
    starts, sizes : ndarray of shape (n_blocks,)
        First entry and length of every block.
    stretch : float
        One plus the multiplier of the bound.
    on_sphere : bool
        Whether the bound is active.
    f_sums : ndarray of shape (n_blocks,)
        f summed over the blocks: the sphere's normal.
    radius : float
        Largest norm in the set, which may be infinite.
    """

    starts: NDArray[np.int64]
    sizes: Vector
    stretch: float
    on_sphere: bool
    f_sums: Vector
    radius: float

    def stiffness(self, c: float) -> Vector:
        """S as a symmetric band: row 0 the off-diagonal, row 1 the diagonal."""
        S = np.zeros((2, len(self.starts)))
        S[1] = self.stretch * self.sizes
        S[1, :-1] += 2.0 * c
        S[1, 1:] += 2.0 * c
        S[0, 1:] = -2.0 * c
        return S

    def spread(self, values: Vector) -> Vector:
        """Target that has the value of its block in every entry."""
        return np.repeat(values, self.sizes.astype(np.int64))


@runtime_checkable
class TargetSet(Protocol):
    """What the f-step asks of a closed convex set of targets with sum 0."""

    @property
    def name(self) -> str:
        """What messages and model files call it."""

    @property
    def smoothness(self) -> float:
        """Weight of the squared differences in the penalty."""

    def at(self, smoothness: float) -> Self:
        """The same set with another smoothness. It may remember: a solver makes its own."""

    def make_feasible(self, f: ArrayLike) -> Vector:
        """A member close to f, which may have any sum; f itself, centred, if that is one."""

    def penalty(self, f: Vector) -> float:
        """Penalty of a member."""

    def prox(self, z: Vector, step: float) -> Vector:
        """Minimiser of ½‖f − z‖² + step · penalty(f) over the set, for a z of sum 0."""

    def conjugate(self, g: Vector, reach: float) -> float:
        """Upper bound on max g·f − penalty(f) over the members of norm up to `reach`, at least 4√K.

        It certifies the f-step, and should be tight. A bounded set needs no `reach`; a cone without
        smoothness has no finite bound beyond it.
        """

    def face(self, f: Vector, z: Vector, step: float) -> Face | None:
        """Face of f = prox(z, step); None where the set has none, and first-order methods must do."""


@dataclass(frozen=True)
class ConvexTargets:
    """Base for sets of targets of mean square at most 1, of which the prox is known.

    A subclass has a ``name`` and a method ``prox(z, step)``, exact for very long steps too, since it gives
    the certificate. Sets with larger targets also need their own :meth:`conjugate`.
    """

    smoothness: float = 0.0
    name = ""

    def at(self, smoothness: float) -> Self:
        """The same set with another smoothness."""
        return replace(self, smoothness=float(smoothness))

    def make_feasible(self, f: ArrayLike) -> Vector:
        """Centre, and project."""
        return self.at(0.0).prox(_centred(np.asarray(f, dtype=np.float64)), 1.0)

    def penalty(self, f: Vector) -> float:
        """Smoothness · Σ (f[j+1] − f[j])²."""
        return self.smoothness * float(np.sum(np.diff(f) ** 2)) if self.smoothness else 0.0

    def prox(self, z: Vector, step: float) -> Vector:
        """Minimiser of ½‖f − z‖² + step · penalty(f) over the set."""
        raise NotImplementedError(f"{type(self).__name__} must define prox(z, step).")

    def conjugate(self, g: Vector, reach: float) -> float:
        """Bound through the prox: g·f − penalty(f) − ‖f‖²/(2 step) is largest at prox(step·g, step).

        It is exact where the ball is active. Otherwise the bound without the set may be the better one.
        """
        K, size = len(g), float(np.linalg.norm(g))
        if size == 0.0:
            return 0.0
        step = (_FAR_SMOOTH if self.smoothness > 0.0 else _FAR) * np.sqrt(K) / size
        f = self._twin.prox(step * g, step)
        slack = max(0.0, K - float(f @ f)) / (2.0 * step)
        bound = float(g @ f) - self.penalty(f) + slack
        return min(bound, self._conjugate_of_penalty(g)) if self.smoothness > 0.0 else bound

    def _conjugate_of_penalty(self, g: Vector) -> float:
        """Max of g·f − penalty(f) over all vectors of sum 0: it separates over the steps f[j+1] − f[j]."""
        pull = self._pulls(g)
        return float(pull @ pull) / (4.0 * self.smoothness)

    def _pulls(self, g: Vector) -> Vector:
        """Derivative of g·f in every step."""
        return -np.cumsum(g)[:-1]

    @cached_property
    def _twin(self) -> Self:
        """The same set with a memory of its own, for proxes of very different vectors."""
        return self.at(self.smoothness)

    def face(self, f: Vector, z: Vector, step: float) -> Face | None:
        """Unknown."""
        return None

    def _face(self, f: Vector, z: Vector, step: float, starts: Any, radius: float) -> Face:
        sizes = np.diff(starts, append=len(f)).astype(np.float64)
        stretch, norm2 = 1.0, float(f @ f)
        if norm2 >= radius**2 * _ON_SPHERE:
            stretch = max(1.0, (float(f @ z) - 2.0 * step * self.penalty(f)) / norm2)
        return Face(starts, sizes, stretch, stretch > 1.0 + 1e-12, f[starts] * sizes, radius)


class Bounded(ConvexTargets):
    """Mean square at most 1, in any order: "f0"."""

    name = "f0"

    @cached_property
    def _smooth(self) -> SmoothProx:
        return SmoothProx(bounded=True)

    def prox(self, z: Vector, step: float) -> Vector:
        """Smooth, and shrink into the ball."""
        c = step * self.smoothness
        return _centred(self._smooth(z, c) if c > 0.0 else project_bounded(z))

    def face(self, f: Vector, z: Vector, step: float) -> Face:
        """Every entry is a block."""
        return self._face(f, z, step, np.arange(len(f)), np.sqrt(len(f)))


class BoundedNondecreasing(ConvexTargets):
    """Non-decreasing, with mean square at most 1: "bnd"."""

    name = "bnd"

    @cached_property
    def _smooth(self) -> SmoothNondecreasingProx:
        return SmoothNondecreasingProx(bounded=True)

    def prox(self, z: Vector, step: float) -> Vector:
        """Smooth among the non-decreasing, and shrink into the ball."""
        c = step * self.smoothness
        return _centred(self._smooth(z, c) if c > 0.0 else project_bounded_nondecreasing(z))

    def _pulls(self, g: Vector) -> Vector:
        return np.maximum(-np.cumsum(g)[:-1], 0.0)  # steps are not negative

    def face(self, f: Vector, z: Vector, step: float) -> Face:
        """Blocks of equal entries."""
        return self._face(f, z, step, _blocks(f), np.sqrt(len(f)))


class JointNondecreasing(BoundedNondecreasing):
    """The set of "joint" and "crossfit": that of "bnd", meant to be used with smoothness."""

    name = "joint"


class Nondecreasing(BoundedNondecreasing):
    """Non-decreasing of any size: "spav"."""

    name = "spav"

    @cached_property
    def _smooth(self) -> SmoothNondecreasingProx:
        return SmoothNondecreasingProx()

    def prox(self, z: Vector, step: float) -> Vector:
        """Smooth among the non-decreasing."""
        c = step * self.smoothness
        return _centred(self._smooth(z, c) if c > 0.0 else project_nondecreasing(z))

    def conjugate(self, g: Vector, reach: float) -> float:
        """Exact with smoothness; without, the maximum up to the norm `reach`."""
        if self.smoothness > 0.0:
            return self._conjugate_of_penalty(g)
        return reach * float(np.linalg.norm(project_nondecreasing(g)))

    def face(self, f: Vector, z: Vector, step: float) -> Face:
        """Blocks of equal entries."""
        return self._face(f, z, step, _blocks(f), np.inf)


def _centred(f: Vector) -> Vector:
    """Without the mean, which keeps the order of the entries."""
    return f - f.mean()


def _blocks(f: Vector) -> NDArray[np.int64]:
    """First entries of the stretches of equal values."""
    return np.concatenate([[0], np.flatnonzero(np.diff(f)) + 1])


TARGET_SETS: dict[str, TargetSet] = {
    one.name: one
    for one in (Bounded(), BoundedNondecreasing(), Nondecreasing(), JointNondecreasing())
}


def find_target_set(target_set: Any) -> TargetSet:
    """Set by its name; an object that follows :class:`TargetSet` is returned as it is."""
    if isinstance(target_set, str) and target_set in TARGET_SETS:
        return TARGET_SETS[target_set]
    if isinstance(target_set, TargetSet):
        return target_set
    names = [repr(name) for name in TARGET_SETS]
    raise ValueError(
        f"target_set is {target_set!r}; choose {', '.join(names[:-1])} or {names[-1]}, or give an object that "
        "follows suquan.target_sets.TargetSet."
    )
