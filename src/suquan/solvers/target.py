"""The f-step: the best target quantiles, and intercept, for a fixed w.

With w fixed every sample scores D_i·f + b, where D_i = T_iᵀ w, and the step is convex in (f, b):

    J(f, b) = Σ_i s_i ℓ(y_i, D_i·f + b) + smoothness · Σ_j (f[j+1] − f[j])²,    f in the set.

The loss is known through :class:`suquan.solvers._target_data.LossSide`, the set through
:class:`suquan.target_sets.TargetSet`. Two second-order methods share one certificate
(:mod:`suquan.solvers._target_record`), for sets that know their faces:

- at most K rows (:mod:`suquan.solvers._target_dual`): the dual has one variable per score. Newton's method on
  the dual of a proximal-point step; its system only needs D summed over the blocks of equal quantiles;
- more rows than K (:mod:`suquan.solvers._target_primal`): minimise a quadratic model with the K×K Hessian over
  the set, by accelerated proximal gradient and jumps to the minimiser on the present blocks.

Proximal gradient with restarts on D itself finishes what either leaves unsolved, and solves for all other sets.
Called by the rounds of :mod:`suquan.objective`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from suquan.losses import Loss
from suquan.solvers._products import one_blas_thread
from suquan.solvers._target_data import LossSide, RowsInMemory
from suquan.solvers._target_dual import dual_newton as _dual_newton
from suquan.solvers._target_primal import primal_newton as _primal_newton
from suquan.solvers._target_record import Record, TargetFit, Vector
from suquan.solvers._target_record import accelerated as _accelerated
from suquan.target_sets import TargetSet, find_target_set

_HESSIAN_COST = 40  # K over the iterations that cost as much as a K×K Hessian


def solve_target(
    D: NDArray | LossSide,
    loss: Loss,
    y: NDArray,
    s: Vector,
    f_start: Vector,
    *,
    target_set: str | TargetSet,
    smoothness: float = 0.0,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int = 500,
) -> TargetFit:
    r"""Minimise the loss over target quantiles and intercept.

    .. math::

        \min_{f \in F, \, b} ~ \sum_i s_i \, \ell(y_i, D_i^\top f + b) + c \sum_j (f_{j+1} - f_j)^2

    with :math:`c` the smoothness, and F the vectors of sum 0 that are of mean square at most 1 ("f0"), also
    non-decreasing ("bnd", "joint"), or non-decreasing of any size ("spav").

    Parameters
    ----------
    D : ndarray of shape (n_rows * n_outputs, K), or LossSide
        Design, float32 or float64, the scores of a row side by side; or rows that lie elsewhere with their
        loss, labels and weights, so that only sums are known and the next three arguments are not used.
    loss : Loss
    y : ndarray of shape (n_rows,)
        Encoded labels or values.
    s : ndarray of shape (n_rows,)
        Weights ≥ 0 that sum to 1.
    f_start : ndarray of shape (K,)
        Start. It is made feasible where it is not: centred, projected.
    target_set : {"f0", "bnd", "spav", "joint"} or TargetSet
    smoothness : float, default=0.0
        Weight of the squared differences, ≥ 0, for every set.
    fit_intercept : bool, default=True
        Whether b is free, always the best one given f; otherwise it is 0.
    tol : float, default=1e-6
        Stop at a certified (J − J*) / J ≤ tol. Where J is below 10⁻⁶ of the best constant score's, the gap
        is relative to that. Without bound and smoothness ("spav" with 0) the minimum may not be attained;
        the certificate then covers the targets of up to 4 times the norm of f, or of a target of mean square 1.
    max_iter : int, default=500
        Largest number of iterations.

    Returns
    -------
    TargetFit
        Its objective is never above the start's. Where the minimiser is not unique, it is the limit of the
        method's deterministic iteration from ``f_start``.

    Examples
    --------
    >>> import numpy as np
    >>> from suquan.losses import Squared
    >>> from suquan.solvers.target import solve_target
    >>> D = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> fit = solve_target(D, Squared(), np.array([3.0, 0.0, 0.0]), np.full(3, 1 / 3),
    ...                    np.array([-1.0, 0.0, 1.0]), target_set="bnd")
    >>> fit.f.round(4), round(fit.b, 4)
    (array([-0.7071, -0.7071,  1.4142]), 1.0)
    """
    target = find_target_set(target_set).at(smoothness)
    data: Any = RowsInMemory(D, loss, y, s, fit_intercept) if isinstance(D, np.ndarray) else D
    # Line searches refuse what is not finite.
    with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        record = Record(data, target, target.make_feasible(f_start), tol, max_iter)
        _minimise(data, record)
        return record.result()


def _minimise(data: Any, record: Record) -> None:
    """Have the methods bring the record to its tolerance, the fastest first."""
    if not record.done and record.target.face(record.f, record.f, 1.0) is not None:
        if data.solves_dual:
            _dual_newton(data, record)
        else:
            # A Hessian costs about as much as K/20 products: well-conditioned problems end before it.
            _accelerated(record, data.K // _HESSIAN_COST)
            if not record.done:
                _primal_newton(data, record)
    _accelerated(record)
