"""The paper's cohorts from small files of the form that GEO gives them, and the label they get."""

import gzip

import numpy as np
import pytest

from experiments.expression.geo import SERIES, load_geo
from suquan.io import TableError

DFS_EVENT = (
    "DFS EVENT (0=censored; 1=event defined as any type of recurrence (local, regional or distant) "
    "or death from breast cancer"
)
CLINICAL_2034 = [
    "PID", "GEO asscession number", "lymph node status", "time to relapse or last follow-up (months)",
    "relapse (1=True)", "ER Status", "Brain relapses (1=yes, 0=no)",
]  # fmt: skip
# Years and event of nine patients, and the class each must get; None: left out.
PATIENTS = [
    (2.0, 1, 1),
    (6.0, 1, 1),  # at the horizon
    (6.01, 1, 0),  # relapsed later
    (6.0, 0, None),  # followed to the horizon, not beyond
    (5.9, 0, None),
    (9.5, 0, 0),
    (0.5, 1, 1),
    (7.0, 0, 0),
    (None, None, None),
]
CLASSES = [label for *_, label in PATIENTS if label is not None]
SAMPLES = [f"GSM{100 + i}" for i in range(len(PATIENTS))]
PROBES = ["1007_s_at", "1053_at", "117_at", "AFFX-BioB-5_at"]
VALUES = np.arange(len(PATIENTS) * len(PROBES)).reshape(len(PATIENTS), len(PROBES)) / 4 + 1


def cell(value):
    return "NA" if value is None else f"{value:g}"


def series_matrix(accession, characteristics=()):
    """A series matrix; `characteristics` are rows of (key, one value per sample)."""
    lines = [f'!Series_geo_accession\t"{accession}"', '!Series_title\t"A small one"', ""]
    lines.append("!Sample_title\t" + "\t".join(f'"patient {i}"' for i in range(len(SAMPLES))))
    lines.append("!Sample_geo_accession\t" + "\t".join(f'"{name}"' for name in SAMPLES))
    for key, values in characteristics:
        lines.append("!Sample_characteristics_ch1\t" + "\t".join(f'"{key}: {v}"' for v in values))
    lines += ["!series_matrix_table_begin", '"ID_REF"\t' + "\t".join(f'"{s}"' for s in SAMPLES)]
    for j, probe in enumerate(PROBES):
        lines.append(f'"{probe}"\t' + "\t".join(f"{x:g}" for x in VALUES[:, j]))
    return "\n".join([*lines, "!series_matrix_table_end", ""])


def write_1456(folder):
    fields = [
        ("RELAPSE", [cell(event) for _, event, _ in PATIENTS]),
        ("SURV_RELAPSE", [cell(years) for years, _, _ in PATIENTS]),
        ("DEATH", ["0"] * len(PATIENTS)),
        ("SURV_DEATH", ["7.5"] * len(PATIENTS)),
        ("SUBTYPE", ["Luminal A"] * len(PATIENTS)),
    ]
    text = series_matrix("GSE1456", fields)
    (folder / "GSE1456-GPL96_series_matrix.txt.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "GSE1456-GPL97_series_matrix.txt").write_text("not the one that is wanted")


def write_4922(folder):
    fields = [
        ("Elston (NGS) histologic grade", ["2"] * len(PATIENTS)),
        ("DFS TIME (yrs)", [cell(years) for years, _, _ in PATIENTS]),
        (DFS_EVENT, [cell(event) for _, event, _ in PATIENTS]),
    ]
    (folder / "GSE4922-GPL96_series_matrix.txt").write_text(series_matrix("GSE4922", fields))


def rows_2034():
    for i, (years, event, _) in enumerate(PATIENTS[:-1]):
        yield [str(i), SAMPLES[i], "negative", f"{12 * years:g}", str(event), "ER+", "0"]


def write_2034(folder, kind="clinical"):
    bone = ("bone relapses (1=yes, 0=no)", ["0"] * len(PATIENTS))
    (folder / "GSE2034_series_matrix.txt").write_text(series_matrix("GSE2034", [bone]))
    remarks = [f"#{name} = what it is" for name in CLINICAL_2034]
    table = ["\t".join(row) for row in (CLINICAL_2034, *rows_2034())]
    if kind == "clinical":
        (folder / "GSE2034_clinical.txt").write_text("\n".join([*remarks, *table, "", ""]))
        return
    lines = ["^SERIES = GSE2034", "!Series_title = Breast cancer relapse free survival", *remarks]
    lines += ["!series_table_begin = Patient clinical parameters header descriptions", *table]
    lines += ["!series_table_end", "^PLATFORM = GPL96", "!platform_table_begin", "ID\tGene", "x\ty"]
    (folder / "GSE2034_family.soft.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def write_2990(folder):
    (folder / "GSE2990_series_matrix.txt").write_text(
        series_matrix("GSE2990", [("time rfs", ["KJX64"] * len(PATIENTS))])
    )
    header = "samplename geo_accn filename size age er grade treatment time.rfs event.rfs time.dmfs event.dmfs"
    lines = [header.replace(" ", "\t")]
    for name, (years, event, _) in zip(SAMPLES, PATIENTS, strict=True):
        row = f"KIT_1 {name} KIT_1.CEL 2 50 1 3 none {cell(years)} {cell(event)} 1 1".split()
        lines.append("\t".join(row))
    (folder / "GSE2990_suppl_info.txt").write_text("\n".join(lines) + "\n")


WRITERS = {
    "GSE1456": write_1456,
    "GSE2034": write_2034,
    "GSE2990": write_2990,
    "GSE4922": write_4922,
}


@pytest.mark.parametrize(
    ("accession", "options"), [*((name, []) for name in WRITERS), ("GSE2034", ["soft"])]
)
def test_every_cohort_is_labelled_by_the_papers_rule(accession, options, tmp_path):
    WRITERS[accession](tmp_path, *options)
    cohort = load_geo(accession, tmp_path)
    kept = [i for i, (*_, label) in enumerate(PATIENTS) if label is not None]
    assert cohort.target.tolist() == CLASSES
    np.testing.assert_allclose(cohort.data, VALUES[kept])
    assert cohort.sample_names.tolist() == [SAMPLES[i] for i in kept]
    n, n_relapsed = SERIES[accession].paper
    assert cohort.report == (
        f"{accession}: 6 labelled, 3 of them relapsed (paper: {n}, {n_relapsed}); left out: 2 censored "
        "before 6 years, 1 without time or event"
    )


def test_rows_that_are_there_twice_count_once(tmp_path):
    write_2034(tmp_path)
    path = tmp_path / "GSE2034_clinical.txt"
    lines = path.read_text().rstrip().splitlines()
    path.write_text("\n".join([*lines, lines[-1]]))
    assert load_geo("GSE2034", tmp_path).target.tolist() == CLASSES
    path.write_text("\n".join([*lines, lines[-1].replace("negative", "positive")]))
    with pytest.raises(TableError, match="more than once"):
        load_geo("GSE2034", tmp_path)


def test_files_that_are_missing_or_too_many_are_named(tmp_path):
    with pytest.raises(
        TableError, match=r"wanted the series matrix GSE2034_series_matrix.txt.gz.*none"
    ):
        load_geo("GSE2034", tmp_path)
    write_2034(tmp_path)
    (tmp_path / "GSE2034_clinical.txt").unlink()
    with pytest.raises(TableError, match=r"no follow-up times; wanted a file GSE2034_clinical"):
        load_geo("GSE2034", tmp_path)
    (tmp_path / "GSE2034_2_series_matrix.txt").write_text("x")
    with pytest.raises(TableError, match=r"there is several: GSE2034_2_series"):
        load_geo("GSE2034", tmp_path)


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_patients_on_tamoxifen_are_left_out_of_gse2990(tmp_path):
    write_2990(tmp_path)
    change(tmp_path / "GSE2990_suppl_info.txt", "\t3\tnone\t2\t", "\t3\ttamoxifen\t2\t")
    cohort = load_geo("GSE2990", tmp_path)
    assert cohort.target.tolist() == CLASSES[1:]
    assert "1 without time or event, 1 with treatment tamoxifen" in cohort.report


@pytest.mark.parametrize(
    ("accession", "name", "old", "new", "message"),
    [
        ("GSE1456", "GSE1456-GPL96_series_matrix.txt", "SURV_RELAPSE", "SURVIVAL",
         "matches 'surv_relapse'; there is none.*RELAPSE"),
        ("GSE2034", "GSE2034_clinical.txt", "\t24\t1\t", "\tsoon\t1\t", "'soon' is not a number"),
        ("GSE2034", "GSE2034_clinical.txt", "\t24\t1\t", "\t24\t", "has 6 cells, the header has 7"),
        ("GSE2034", "GSE2034_clinical.txt", "\trelapse (1=True)", "\trelapse", "matches"),
    ],
)  # fmt: skip
def test_columns_that_are_missing_or_damaged_are_named(
    accession, name, old, new, message, tmp_path
):
    WRITERS[accession](tmp_path)
    for path in tmp_path.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    change(tmp_path / name, old, new)
    with pytest.raises(TableError, match=message):
        load_geo(accession, tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [(gzip.compress(b"^SERIES = GSE2034\n"), "no table"), (b"not gzip", "cannot be read")],
)
def test_an_empty_or_damaged_clinical_file_is_refused(data, message, tmp_path):
    write_2034(tmp_path, "soft")
    (tmp_path / "GSE2034_family.soft.gz").write_bytes(data)
    with pytest.raises(TableError, match=message):
        load_geo("GSE2034", tmp_path)
