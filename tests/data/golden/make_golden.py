"""Write the golden inputs and targets, and what qnorm makes of them.

Samples are rows and features are columns in every file. qnorm wants samples in columns, so
the matrices are transposed on the way in and on the way out.
"""

from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SEED = 20240607


def no_ties(rng):
    """4 samples, 7 features, all values of a sample distinct, each sample on its own scale."""
    return (0.1 + rng.random((4, 7))) * np.array([[1.0], [2.5], [7.0], [30.0]])


def ties(rng):
    """5 samples, 12 features: integers, one 4-, one 3- and one 2-way tie a sample, and zeros."""
    sizes = np.array([4, 3, 2, 1, 1, 1])
    rows = []
    for _ in range(5):
        values = np.concatenate([[0], 1 + rng.permutation(40)[:5]])
        rows.append(rng.permutation(np.repeat(values, rng.permutation(sizes))))
    return np.array(rows, dtype=float)


def counts(rng):
    """6 samples, 40 features: small counts, 144 of the 240 values (60 %) are zero."""
    rows = []
    for n_zeros in (20, 22, 24, 24, 26, 28):
        positive = 1 + np.floor(15 * rng.random(40 - n_zeros) ** 3)
        rows.append(rng.permutation(np.concatenate([np.zeros(n_zeros), positive])))
    return np.array(rows)


def signed(rng):
    """3 samples, 25 features: both signs, 16 orders of magnitude, ties, 0.0 tied with -0.0."""
    special = (
        [0.0, -0.0, 0.0, -1.5, -1.5],
        [-0.0, 0.0, 2e6, 2e6, 2e6],
        [-0.0, -0.0, 0.0, 0.0, -3e-5, -3e-5, -3e-5],
    )
    rows = []
    for values in special:
        n_other = 25 - len(values)
        sign = np.where(rng.random(n_other) < 0.5, -1.0, 1.0)
        other = sign * 10.0 ** (16 * rng.random(n_other) - 8)
        rows.append(rng.permutation(np.concatenate([values, other])))
    return np.array(rows)


CASES = {"no_ties": no_ties, "ties": ties, "counts": counts, "signed": signed}


def make_target(rng, n_features):
    """Strictly increasing values with uneven steps, the first ones negative."""
    return -2.0 + np.cumsum(0.05 + 3.0 * rng.random(n_features) ** 3)


def save(name, values):
    """Write one row of `values` per line, with all digits."""
    np.savetxt(HERE / f"{name}.csv", np.atleast_2d(values), fmt="%.17g", delimiter=",")


def main():
    """Write all files of all cases."""
    import pandas as pd
    import qnorm

    for i, (case, make_input) in enumerate(CASES.items()):
        rng = np.random.default_rng([SEED, i])
        x = make_input(rng)
        target = make_target(rng, x.shape[1])
        columns = pd.DataFrame(x.T)
        save(f"{case}_input", x)
        save(f"{case}_target", target)
        save(f"{case}_qnorm", qnorm.quantile_normalize(columns, axis=1).to_numpy().T)
        save(
            f"{case}_qnorm_target",
            qnorm.quantile_normalize(columns, axis=1, target=target).to_numpy().T,
        )


if __name__ == "__main__":
    main()
