"""``python -m experiments.expression`` from a folder of CEL files, a clinical table and a CDF file."""

import gzip
import re
from dataclasses import replace

import numpy as np
import pytest
from affymetrix_files import cdf_text, cdf_xda, cel_1, cel_3, cel_4
from experiment_runs import rows, run

from experiments.expression import cohort as cohorts
from experiments.expression.settings import Settings
from experiments.expression.training_rma import training_rma
from suquan.microarray import background_correct, median_polish, rma

N_ROWS, N_COLS, N_ARRAYS = 20, 12, 24
# Probe sets of 3 and 2 pairs; a mismatch lies below its perfect match.
SETS = {f"{k}_at": [2 * N_COLS * r + c for c in cells] for k, (r, cells) in enumerate(
    (row, cells) for row in range(10) for cells in ([0, 4, 8], [1, 5], [2, 6, 10])
)}  # fmt: skip
SMALL = {
    "outer_repeats": 1, "inner_repeats": 1, "inner_folds": 2, "n_knots": 6, "alphas": [1e-4, 1e-2],
    "smoothnesses": [0.0, 0.01],
}  # fmt: skip


@pytest.fixture
def arrays(tmp_path):
    """A folder of CEL files in all formats, a clinical table and a layout; one patient without label."""
    rng = np.random.default_rng(0)
    y = np.arange(N_ARRAYS) % 2
    folder = tmp_path / "GSE2034"
    folder.mkdir()
    lines = ["patient,relapse,years,event"]
    for j in range(N_ARRAYS):
        cells = 2.0 ** (rng.normal(7, 1.5, N_ROWS * N_COLS) + 2 * y[j] * (np.arange(240) % 7 == 0))
        data = (cel_1, cel_3, cel_4)[j % 3](cells + 60, N_ROWS, N_COLS)
        name = f"GSM{j}.CEL" if j % 2 else f"GSM{j}_chip.cel.gz"
        (folder / name).write_bytes(data if j % 2 else gzip.compress(data))
        label = "" if j == 5 else ("no", "yes")[y[j]]
        lines.append(f"GSM{j},{label},{2 + 7 * (1 - y[j])},{y[j]}")
    (folder / "readme.txt").write_text("not an array")
    (tmp_path / "clinical.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "chip.cdf").write_bytes(cdf_xda(SETS, N_ROWS, N_COLS))
    return tmp_path


def run_arrays(folder, *more, **changes):
    files = {"cel": "GSE2034", "clinical": "clinical.csv", "cdf": "chip.cdf", "out": "out"}
    words = [f"--{key}={folder / name}" for key, name in files.items()]
    return run(
        "expression", *words, *more, **({"label": "relapse", "positive": "yes"} | SMALL | changes)
    )


def test_cel_files_and_a_clinical_table_give_tables_1_and_2_with_rma(arrays):
    result = run_arrays(arrays)
    assert result.code == 0, result
    counts = rows(arrays / "out" / "table1.csv")
    assert [row["dataset"] for row in counts] == ["GSE2034"]
    assert (counts[0]["samples"], counts[0]["positives"]) == ("23", "11")
    assert counts[0]["features"] == str(len(SETS))
    assert counts[0]["samples_in_paper"] == "271"
    assert (counts[0]["platform"], counts[0]["endpoint"]) == ("chip", "relapse = yes")
    table = rows(arrays / "out" / "table2.csv")
    for method in ("raw", "rma", "median", "svd", "svd_full", "bnd", "spav", "crossfit"):
        assert 0 <= float(table[0][method]) <= 100, method
    folds = rows(arrays / "out" / "folds.csv")
    assert len({(row["repeat"], row["fold"]) for row in folds if row["method"] == "rma"}) == 3
    assert all(float(row["smoothness"]) > 0 for row in folds if row["method"] == "spav")
    for stage in ("table", "plot"):  # neither needs the files again
        assert run("expression", "--stage", stage, "--out", arrays / "out").code == 0


def labels_of(folder, **changes):
    """Labels by the names of the files, which are not read."""
    files = cohorts.Cohort(folder / "GSE2034", folder / "clinical.csv", folder / "chip.cdf")
    paths, y = cohorts.labelled_files(files, replace(Settings(), **changes))
    return {path.name: int(label) for path, label in zip(paths, y, strict=True)}


def test_survival_times_may_make_the_labels(arrays):
    found = labels_of(arrays, time="years", event="event", horizon=6.0)
    assert len(found) == 24
    assert (found["GSM4_chip.cel.gz"], found["GSM5.CEL"]) == (0, 1)


def test_samples_without_a_partner_may_be_left_out(arrays):
    without_row(arrays)
    without("GSM3.CEL")(arrays)
    found = labels_of(arrays, label="relapse", positive="yes", unmatched="drop")
    assert len(found) == 20  # of 24, two without row, one without file, one without label
    assert not {"GSM3.CEL", "GSM5.CEL", "GSM22_chip.cel.gz", "GSM23.CEL"} & set(found)


def changed(name, change):
    """A function that changes the bytes of one file of a folder."""

    def write(folder):
        (folder / name).write_bytes(change((folder / name).read_bytes()))

    return write


def without(pattern):
    """A function that removes arrays from a folder."""
    return lambda folder: [path.unlink() for path in (folder / "GSE2034").glob(pattern)]


def twice(folder):
    (folder / "GSE2034" / "GSM3_again.CEL").write_bytes(b"")


without_row = changed("clinical.csv", lambda text: b"".join(text.splitlines(keepends=True)[:-2]))
of_other_patients = changed("clinical.csv", lambda text: text.replace(b"GSM", b"P"))
of_another_chip = changed("chip.cdf", lambda _: cdf_text(SETS, N_ROWS + 1, N_COLS))
truncated = changed("GSE2034/GSM3.CEL", lambda data: data[:500])


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (without_row, {}, "2 CEL files in .* have no row in .*clinical.csv: GSM22_chip, GSM23.*unmatched=drop"),
        (without("GSM3.CEL"), {}, "1 rows of .*clinical.csv have no CEL file in .*: GSM3.*unmatched=drop"),
        (without("*"), {}, "is no folder with CEL files"),
        (of_other_patients, {"unmatched": "drop"}, "name the column of sample names"),
        (twice, {}, "are both sample 'GSM3'; keep one"),
        (None, {"outer_folds": 15}, "class 0, too few for 15 outer"),
        (None, {"label": "stage"}, "no label column 'stage'; there is 'relapse', 'years', 'event'"),
        (None, {"positive": "maybe"}, "'relapse': no label is 'maybe'"),
        (None, {"unmatched": "ignore"}, "'error' or 'drop'"),
        (None, {"cdf": ["a", "b"], "cel": ["c", "d", "e"]}, "give --cel, --clinical and --cdf"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_anything_is_written(arrays, change, settings, message):
    if change is not None:
        change(arrays)
    files = {key: settings.pop(key) for key in ("cel", "cdf") if key in settings}
    more = [f"--{key}={path}" for key, paths in files.items() for path in paths]
    for path in [arrays / name for name in "abcde"]:
        path.mkdir()
    result = run_arrays(arrays, *[word.replace("=", f"={arrays}/") for word in more], **settings)
    assert result.code == 1
    assert len(result.err.splitlines()) == 1
    assert re.search(message, result.err, re.IGNORECASE), result.err
    assert not (arrays / "out").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [(of_another_chip, "different chips"), (truncated, "GSM3.CEL is truncated .* again")],
)
def test_unreadable_arrays_are_named(arrays, change, message):
    change(arrays)
    result = run_arrays(arrays)
    assert result.code == 1
    assert re.search(message, result.err), result.err


def test_options_for_arrays_come_together(tmp_path):
    result = run("expression", "--cel", tmp_path, "--out", tmp_path / "out")
    assert result.code == 1
    assert "give --cel, --clinical and --cdf" in result.err.lower()
    result = run("simulated", "--cel", tmp_path)
    assert result.code == 2


def test_rma_of_training_arrays_is_rma_and_test_arrays_do_not_change_it():
    rng = np.random.default_rng(1)
    pm = np.exp(rng.normal(6, 1, (60, 30))) + 50
    probeset = rng.permutation(np.repeat([f"s{k}" for k in range(17)], [4] * 9 + [3] * 8))
    probes, train = background_correct(pm).T, np.arange(20)[::-1]
    found = training_rma(probes, probeset, train)
    np.testing.assert_allclose(found[train], rma(pm[:, train], probeset).T, rtol=1e-10)
    changed = probes.copy()
    changed[20:] = 3 * changed[20:] ** 1.5
    again = training_rma(changed, probeset, train)
    np.testing.assert_array_equal(again[train], found[train])
    np.testing.assert_allclose(again, found, rtol=1e-10)  # only the order of its probes counts


def test_test_arrays_get_what_a_polish_would_give_them_where_probes_agree():
    rng = np.random.default_rng(2)
    level, effect = rng.normal(8, 1, (4, 25)), rng.normal(0, 1, (4, 5))
    values = (level[:, None] + effect[:, :, None]).reshape(20, 25)
    probeset = np.repeat(np.arange(4), 5)
    # One order of all probes in all arrays: normalisation gives all the same values.
    same = np.repeat(values[:, :1], 25, axis=1)
    found = training_rma(2.0**same.T, probeset, np.arange(15))
    np.testing.assert_allclose(found.T, median_polish(same, probeset), atol=1e-10)
