"""Sets of targets by name: a stand-in until they own their maths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from suquan.prox import project_nondecreasing


@runtime_checkable
class TargetSet(Protocol):
    """What the f-step asks of a set."""

    name: str

    def at(self, smoothness: float) -> Any:
        """The same set with another smoothness."""

    def make_feasible(self, f: Any) -> np.ndarray:
        """A member close to f."""

    def prox(self, z: Any, step: float) -> Any:
        """Minimiser of ½‖f − z‖² + step · penalty(f) over the set."""


@dataclass(frozen=True)
class _Named:
    name: str

    def at(self, smoothness: float) -> Any:
        """The set itself."""
        return self

    def make_feasible(self, f: Any) -> np.ndarray:
        """Projection."""
        return f if self.name == "f0" else project_nondecreasing(f)


TARGET_SETS: dict[str, Any] = {name: _Named(name) for name in ("f0", "bnd", "spav", "joint")}


def find_target_set(target_set: Any) -> Any:
    """Set by its name."""
    return TARGET_SETS[target_set] if isinstance(target_set, str) else target_set
