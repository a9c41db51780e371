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
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from suquan.prox import SmoothNondecreasingProx, SmoothProx

__all__ = [
    "TARGET_SETS",
    "Bounded",
    "BoundedNondecreasing",
    "ConvexTargets",
    "JointNondecreasing",
    "Nondecreasing",
    "TargetSet",
    "find_target_set",
]

Vector = NDArray[np.float64]


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


@dataclass(frozen=True)
class ConvexTargets:
    """Base for sets of which the prox is known: a subclass has a ``name`` and a method ``prox(z, step)``."""

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


class Bounded(ConvexTargets):
    """Mean square at most 1, in any order: "f0"."""

    name = "f0"

    @cached_property
    def _solve(self) -> SmoothNondecreasingProx:
        """Prox that starts from its last answer: every :meth:`at` has one of its own."""
        return SmoothProx(bounded=True)

    def prox(self, z: Vector, step: float) -> Vector:
        """Minimiser of ½‖f − z‖² + step · penalty(f) over the set."""
        return _centred(self._solve(z, step * self.smoothness))


class BoundedNondecreasing(Bounded):
    """Non-decreasing, with mean square at most 1: "bnd"."""

    name = "bnd"

    @cached_property
    def _solve(self) -> SmoothNondecreasingProx:
        return SmoothNondecreasingProx(bounded=True)


class JointNondecreasing(BoundedNondecreasing):
    """The set of "joint" and "crossfit": that of "bnd", meant to be used with smoothness."""

    name = "joint"


class Nondecreasing(Bounded):
    """Non-decreasing of any size: "spav"."""

    name = "spav"

    @cached_property
    def _solve(self) -> SmoothNondecreasingProx:
        return SmoothNondecreasingProx()


def _centred(f: Vector) -> Vector:
    """Without the mean, which keeps the order of the entries."""
    return f - f.mean()


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
