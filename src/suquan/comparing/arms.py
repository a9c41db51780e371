"""Methods that :func:`suquan.compare` knows by name, and those that its users give.

Names, rows and estimators come in; a dictionary of named methods goes out: :class:`suquan.methods.Method` for
what normalises to a target, an estimator of scikit-learn, or None for what the study itself knows how to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from suquan.methods import METHODS, Method, resolve_method
from suquan.target_sets import TargetSet

# The learned method with nothing learned, and the best alternative inside each outer fold.
START, BEST_FIXED = "start", "best_fixed"
# The learned method of the verdict, fixed in advance.
VERDICT_METHOD = "crossfit"
FIXED = ("median", "mean", "normal", "uniform", "exponential", "cauchy")
LEARNED = tuple(name for name in METHODS if name != "fixed")
FORESTS = ("forest", "forest_raw")
KNOWN: dict[str, Method | None] = {
    "raw": None,
    **{name: Method(name, start=name) for name in FIXED},
    **{name: METHODS[name] for name in LEARNED},
    **dict.fromkeys((START, *FORESTS)),
}
METHOD_NAMES = tuple(KNOWN)
# "start" comes with the learned method. Times to event have no forests.
DEFAULT_METHODS = ("raw", "median", "uniform", "normal", VERDICT_METHOD, *FORESTS)
# What "best_fixed" chooses from, where it was compared.
ALTERNATIVES = ("raw", *FIXED, START)


def named_methods(methods: Sequence[Any] | None, *, is_times: bool = False) -> dict[str, Any]:
    """Return the methods by name, in order, "start" included; None stands for the default ones."""
    if methods is None:
        methods = [name for name in DEFAULT_METHODS if not (is_times and name in FORESTS)]
    given = [_named(method) for method in methods]
    names = [name for name, _ in given]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise ValueError(f"give each method once, and at least one; repeated: {repeated}.")
    if is_times and set(names) & set(FORESTS):
        raise ValueError("'forest' and 'forest_raw' are for classes and values, not for times.")
    found = dict(given)
    if judged_method(found) is not None:
        found.setdefault(START, None)
    elif START in found:
        raise ValueError(
            f"'start' is a learned method with nothing learned: name {VERDICT_METHOD!r} too."
        )
    return found


def judged_method(methods: dict[str, Any]) -> str | None:
    """Name the verdict's learned method: "crossfit", or else the only one with an initial target."""
    rows = learned_methods(methods).items()
    able = [name for name, row in rows if row.max_rounds and not row.norm]
    return VERDICT_METHOD if VERDICT_METHOD in able else able[0] if len(able) == 1 else None


def learned_methods(methods: dict[str, Any]) -> dict[str, Method]:
    """Return the rows of the methods but for the fixed targets known by name."""
    return {
        name: row for name, row in methods.items() if isinstance(row, Method) and name not in FIXED
    }


def _named(method: Any) -> tuple[str, Any]:
    """Return the name of a method with its row or its estimator; None where it has neither."""
    if isinstance(method, str):
        method = str(method)  # a name from an array
        if method not in KNOWN:
            known = ", ".join(map(repr, KNOWN))
            raise ValueError(
                f"unknown method {method!r}; known are {known}, and (name, estimator) pairs."
            )
        return method, KNOWN[method]
    if isinstance(method, (Method, TargetSet)):
        method = (resolve_method(method).name, method)
    try:
        name, found = method
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"methods are names or (name, estimator) pairs; got {method!r}."
        ) from error
    if name in KNOWN or name == BEST_FIXED:
        raise ValueError(f"{name!r} is the name of a built-in method; choose another.")
    is_method = isinstance(found, (Method, TargetSet))
    return name, resolve_method(found, name) if is_method else found
