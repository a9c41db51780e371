"""Ways to learn the target: rows of one table, and what users may give in place of a row's name.

The estimators, selection, comparison and the rounds read all that they know about a method from its row.
"""

from dataclasses import dataclass, replace
from typing import Any

from suquan._validation import check_choice
from suquan.target_sets import TargetSet

__all__ = ["METHODS", "Method"]


@dataclass(frozen=True, eq=False)
class Method:
    """One way to learn the target.

    Attributes
    ----------
    name : str
        What results and messages call it.
    target_set : str or TargetSet or None
        Set of targets of the f-step, by its name or as an object; None where no f-step is done.
    max_rounds : int
        Rounds of f-step and w-step where the user gives no number; 0 where there are none.
    is_crossfit : bool
        Whether the f-step scores each sample with a model that has not seen it.
    is_smooth : bool
        Whether differences of neighbouring quantiles are penalised.
    is_spectral : bool
        Whether the target is a singular vector of the difference of two classes.
    norm : {"trace", "frobenius"} or None
        Norm of the matrix of all features' curves, for methods with several targets.
    start : str, distribution, callable or array-like, default=None
        Where rounds start, in place of the parameter `init`.
    n_knots : int, default=64
        Knots of a target that is learned, where the user leaves their number to the method.
    """

    name: str
    target_set: Any = None
    max_rounds: int = 0
    is_crossfit: bool = False
    is_smooth: bool = False
    is_spectral: bool = False
    norm: str | None = None
    start: Any = None
    n_knots: int = 64

    def rounds(self, max_rounds: int | None) -> int:
        """Largest number of rounds, for the number that the user gave."""
        return int(max_rounds) if max_rounds and self.max_rounds else self.max_rounds

    @property
    def learns(self) -> bool:
        """Whether the target depends on the labels."""
        return bool(self.max_rounds or self.is_spectral or self.norm)

    def knots(self, n_knots: int | str | None, n_features: int) -> int:
        """Return the number of knots, at most one per feature, for the user's number, "auto" or None.

        A target that is given, and not learned, is read as it is: at full length.
        """
        if n_knots == "auto":
            n_knots = self.n_knots if self.learns else None
        return n_features if n_knots is None else min(int(n_knots), n_features)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("fixed"),
        Method("svd", is_spectral=True),
        Method("f0", "f0", 1),
        Method("bnd", "bnd", 1),
        Method("spav", "spav", 1, is_smooth=True),
        Method("joint", "joint", 5, is_smooth=True),
        Method("crossfit", "joint", 1, is_crossfit=True, is_smooth=True),
        Method("matrix", norm="frobenius", n_knots=16),
        Method("multi", max_rounds=300, norm="trace", n_knots=16),
    )
}


def resolve_method(method: Any, name: str | None = None) -> Method:
    """Row of a method.

    Parameters
    ----------
    method : str, Method or TargetSet
        A name of the table, a row, or a set of targets, which is then learned in-sample in one round.
    name : str, default=None
        What to call it, in place of its own name.

    Returns
    -------
    Method

    Examples
    --------
    >>> from suquan.methods import resolve_method
    >>> resolve_method("joint").max_rounds
    5
    """
    if isinstance(method, str):
        check_choice("method", method, METHODS)
        found = METHODS[method]
    elif isinstance(method, Method):
        found = method
    elif isinstance(method, TargetSet):
        own = getattr(method, "name", type(method).__name__)
        found = Method(own, method, 1, is_smooth=getattr(method, "is_smooth", False))
    else:
        known = ", ".join(repr(known) for known in METHODS)
        raise TypeError(
            f"method must be one of {known}, a suquan.methods.Method, or an object that follows "
            f"suquan.target_sets.TargetSet; one of class {type(method).__name__} does not."
        )
    return found if name is None else replace(found, name=name)
