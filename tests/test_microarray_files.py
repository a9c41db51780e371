"""CEL and CDF readers on files written to the published layout, whole and damaged."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest
from affymetrix_files import cdf_text, cdf_xda, cel_1, cel_3, cel_4
from data_files import data_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suquan.microarray import MicroarrayFileError, probe_intensities, read_cdf, read_cel, rma
from suquan.microarray import _files as files

N_ROWS, N_COLS = 8, 6
SETS = {"b_at": [6, 1, 3], "a_s_at": [14, 15], "AFFX-x_at": [24, 28, 26, 29]}
INTENSITY = np.round(np.random.default_rng(0).gamma(2, 150, size=N_ROWS * N_COLS), 1)
MASKED, OUTLIERS = [(2, 1), (5, 7)], [(0, 3)]
CEL = {1: cel_1, 3: cel_3, 4: cel_4}
CDF = {"text": cdf_text, "xda": cdf_xda}


def make_cel(version, **options):
    marks = {"masked": MASKED, "outliers": OUTLIERS}
    return CEL[version](INTENSITY, N_ROWS, N_COLS, **{**marks, **options})


def make_cdf(kind):
    return CDF[kind](SETS, N_ROWS, N_COLS)


VALID = {
    "cel1": (read_cel, make_cel(1)),
    "cel3": (read_cel, make_cel(3)),
    "cel4": (read_cel, make_cel(4)),
    "text": (read_cdf, make_cdf("text")),
    "xda": (read_cdf, make_cdf("xda")),
}


@pytest.fixture
def write(tmp_path):
    """Write bytes to a file and give its path."""

    def write_bytes(data, name="chip"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write_bytes


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_cel_files_are_read(version, pack, write):
    order = np.random.default_rng(1).permutation(N_ROWS * N_COLS)  # lines of text in any order
    data = make_cel(version, **({"order": order} if version == 3 else {}))
    cel = read_cel(write(pack(data + b"\0" * 5 * (version == 4)), "a.CEL"))  # or padded
    assert (cel.name, cel.version, cel.chip_type) == ("a.CEL", version, "Test3")
    assert (cel.n_rows, cel.n_cols) == (N_ROWS, N_COLS)
    np.testing.assert_array_equal(cel.intensity, INTENSITY.astype(np.float32))
    np.testing.assert_array_equal(cel.sd, 12.5 + np.arange(N_ROWS * N_COLS) % N_COLS)
    np.testing.assert_array_equal(cel.n_pixels, 20 + np.arange(N_ROWS * N_COLS) // N_COLS)
    assert cel.masked.tolist() == [1 * N_COLS + 2, 7 * N_COLS + 5]
    assert cel.outliers.tolist() == [3 * N_COLS]
    width, algorithm = ("affymetrix-cel-cols", "affymetrix-algorithm-name")
    if version != 1:
        width, algorithm = "TotalX", "Algorithm"
    assert cel.header[width] == str(N_COLS)
    assert cel.header[algorithm] == "Percentile"


def test_intensities_that_are_not_finite_are_refused(write):
    bad = np.where(np.arange(INTENSITY.size) == 5, np.nan, INTENSITY)
    for version, message in ((1, "intensity of cell 5"), (3, "finite"), (4, "intensity of cell 5")):
        with pytest.raises(MicroarrayFileError, match=message):
            read_cel(write(CEL[version](bad, N_ROWS, N_COLS)))


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("point", [(N_COLS, 0), (0, N_ROWS), (-1, 0)])
def test_a_mark_off_the_chip_is_refused(version, point, write):
    with pytest.raises(MicroarrayFileError, match="off a chip"):
        read_cel(write(make_cel(version, masked=[point])))


@pytest.mark.parametrize("version", [3, 4])
def test_a_file_that_does_not_name_its_chip_is_read(version, write):
    data = make_cel(version).replace(b".1sq", b".xxx")
    assert read_cel(write(data)).chip_type == ""


@pytest.mark.parametrize("kind", ["text", "xda"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_cdf_files_are_read(kind, pack, write):
    cdf = read_cdf(write(pack(make_cdf(kind)), "Test3.cdf"))
    assert (cdf.chip_type, cdf.n_rows, cdf.n_cols) == ("Test3", N_ROWS, N_COLS)
    assert cdf.probesets.tolist() == list(SETS)
    for k, (name, cells) in enumerate(SETS.items()):
        of_set = cdf.set_index == k
        assert cdf.cells[of_set & cdf.is_pm].tolist() == cells, name
        assert cdf.cells[of_set & ~cdf.is_pm].tolist() == [cell + N_COLS for cell in cells], name


def test_bases_are_compared_in_either_case(write):
    data = (
        make_cdf("text")
        .replace(b"\tA\tT\tA\t", b"\tA\tt\tA\t")
        .replace(b"\tG\tC\tG\t", b"\tg\tc\tg\t")
    )
    assert data != make_cdf("text")
    np.testing.assert_array_equal(
        read_cdf(write(data)).is_pm, read_cdf(write(make_cdf("text"), "b")).is_pm
    )


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("kind", ["text", "xda"])
def test_probe_intensities_are_those_of_the_perfect_matches(version, kind, write):
    paths = [
        write(CEL[version](scale * INTENSITY, N_ROWS, N_COLS), f"{scale}.CEL") for scale in (1, 2)
    ]
    cdf = write(make_cdf(kind), "Test3.cdf")
    cells = np.concatenate(list(SETS.values()))
    for arrays, layout in ((paths, cdf), (map(read_cel, paths), read_cdf(cdf))):
        pm, probeset = probe_intensities(list(arrays), layout)
        np.testing.assert_allclose(pm, np.outer(INTENSITY[cells], [1, 2]), rtol=1e-6)
        assert probeset.tolist() == ["b_at"] * 3 + ["a_s_at"] * 2 + ["AFFX-x_at"] * 4


def test_arrays_of_different_chips_or_none_are_refused(write):
    cdf = write(make_cdf("text"), "Test3.cdf")
    a, b = write(make_cel(4), "a"), write(make_cel(4, chip_type="HG-U133A"), "b")
    with pytest.raises(
        MicroarrayFileError, match="b is of chip type HG-U133A, the arrays before it of Test3"
    ):
        probe_intensities([a, b], cdf)
    small = write(cel_4(INTENSITY, N_ROWS - 1, N_COLS), "small")
    with pytest.raises(MicroarrayFileError, match="they are of different chips"):
        probe_intensities([small], cdf)
    with pytest.raises(ValueError, match="Give a list"):
        probe_intensities(a, cdf)
    with pytest.raises(ValueError, match="at least one array"):
        probe_intensities([], cdf)


@pytest.mark.parametrize(("version", "kind"), [(1, "xda"), (3, "text"), (4, "xda")])
def test_rma_from_files_equals_affy(version, kind, write):
    chip = np.load(data_file("rma_test3.npz"))
    side = 126
    names = chip["probesets"].astype(str)
    cells = np.full((2, (side + 1) * side), 50.0)
    cells[:, chip["cell_index"]] = chip["pm"].T
    paths = [write(CEL[version](row, side + 1, side), f"{j}.CEL") for j, row in enumerate(cells)]
    sets = {name: chip["cell_index"][chip["probeset"] == k] for k, name in enumerate(names)}
    pm, probeset = probe_intensities(paths, write(CDF[kind](sets, side + 1, side), "Test3.cdf"))
    order = np.argsort(names)
    np.testing.assert_allclose(rma(pm, probeset), chip["rma"][order], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", list(VALID))
def test_every_truncation_is_refused(kind, write):
    read, data = VALID[kind]
    # What follows the last thing that is read of a text file may be missing.
    last = {"cel3": b"[MODIFIED]", "text": b"\t-1\t-1"}.get(kind)
    end = data.rindex(last) if last else len(data)
    for size in [*range(0, end, max(1, end // 120)), end - 1]:
        with pytest.raises(MicroarrayFileError):
            read(write(data[:size]))


@pytest.mark.parametrize("kind", list(VALID))
def test_other_files_are_refused(kind, write):
    read, _ = VALID[kind]
    for data in (b"", b"\0" * 200, b"hello, world\n", b"\x89PNG\r\n", b"[Other]\nVersion=3\n"):
        with pytest.raises(MicroarrayFileError, match="is not a C"):
            read(write(data))
    with pytest.raises(FileNotFoundError):
        read("there-is-no-such-file")


def test_a_command_console_file_tells_all_that_it_says(write):
    cel = read_cel(write(make_cel(1)))
    assert cel.header["affymetrix-algorithm-param-OutlierHigh"] == "1.5"
    assert cel.header["program-company"] == "Affymetrix"
    assert cel.header["affymetrix-array-id"] == "17"  # of a file it was made from
    assert cel.header["affymetrix-array-type"] == "Test3"  # its own before its parents'
    unnamed = cel_1(INTENSITY, N_ROWS, N_COLS, values={"affymetrix-array-type": ""})
    assert read_cel(write(unnamed)).chip_type == "Test3"  # from the scanner's line
    whole = [(int(value),) for value in INTENSITY]
    counted = make_cel(1, tables={"Intensity": ([("Intensity", 3, "H")], whole)})
    np.testing.assert_array_equal(read_cel(write(counted)).intensity, np.ravel(whole))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "affymetrix-calvin-scan-acquisition"}, "scan-acquisition.*Give the CEL file"),
        ({"values": {"affymetrix-cel-rows": N_ROWS + 1}}, "9 rows of 6 columns make 54"),
        ({"values": {"affymetrix-cel-cols": "six"}}, "affymetrix-cel-cols should be an integer"),
        ({"tables": {"Pixel": ([("Pixel", 2, "h")], [(1,)] * 47)}}, "it has 47 cells"),
        ({"tables": {"Pixel": ([("Pixel", 2, "i")], [(1,)] * 48)}}, "of type 2 and 4 bytes"),
        ({"tables": {"Pixel": ([("Pixel", 9, "h")], [(1,)] * 48)}}, "of type 9 and 2 bytes"),
        ({"tables": {"Pixel": ([], [])}}, "data set 3 has 0 columns"),
        ({"tables": {"Mask": ([("X", 2, "h")], [(1,)])}}, "no data set 'Mask' with 2 columns"),
        ({"n_groups": 0}, "the number of data groups is 0"),
    ],
)
def test_command_console_files_are_checked(options, message, write):
    with pytest.raises(MicroarrayFileError, match=message):
        read_cel(write(make_cel(1, **options)))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (4, 5, "the version is 5"),
        (8, N_COLS + 1, "columns make"),
        (8, 2**30, "the number of columns is 1,073,741,824"),
        (12, -1, "the number of rows is -1"),
        (16, 2**31 - 1, "has 2,147,483,647 cells"),
        (20, 2**31 - 1, "header should take 2,147,483,647 bytes"),
    ],
)
def test_version_4_numbers_are_checked(place, value, message, write):
    data = bytearray(make_cel(4))
    struct.pack_into("<i", data, place, value)
    with pytest.raises(MicroarrayFileError, match=message):
        read_cel(write(bytes(data)))
    with pytest.raises(MicroarrayFileError, match="3 bytes follow"):
        read_cel(write(make_cel(4) + b"abc"))


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        ("cel3", b"Version=3", b"Version=2", "version of a text file is 2"),
        ("cel3", b"Cols=6", b"Cols=7", "columns make 56"),
        ("cel3", b"Cols=6", b"Cols=six", "should be an integer"),
        ("cel3", b"Rows=8\r\n", b"", "no line Rows="),
        ("cel3", b"NumberCells=48", b"NumberCells=47", "should have 47 cells and has 48"),
        ("cel3", b"\n  0\t  0\t", b"\n  1\t  0\t", "some cells twice"),
        ("cel3", b"\n  0\t  0\t", b"\n  9\t  0\t", "off a chip"),
        ("cel3", b"\n  0\t  0\t", b"\n  0\t  0\tx", "section INTENSITY of chip is damaged"),
        ("cel3", b"\n  0\t  0\t", b"\n  0\t  0\t1\t", "section INTENSITY of chip is damaged"),
        (
            "cel3",
            b"\n  0\t  0\t",
            b"\n  0\t  0\t-inf\t0\t9\n  0\t  0\t",
            "should have 48 cells and has 49",
        ),
        ("cel3", b"[INTENSITY]", b"[INTENSITIES]", r"no section \[INTENSITY\]"),
        ("text", b"NumberOfUnits=3", b"NumberOfUnits=4", "should have 4 units and has 3"),
        ("text", b"UnitType=3", b"UnitType=2", "not an expression unit"),
        ("text", b"Cols=6", b"Cols=5", "INDEX|not between"),
        ("text", b"Name=b_at", b"Name=a_s_at", "names that differ"),
        ("text", b"PBASE\t", b"PBAZE\t", "lacks PBASE"),
        ("text", b"Cell2=0\t2", b"Cell2=0\t3", "INDEX of a cell"),
        ("text", b"Cell2=0\t2", b"Cell3=0\t2", "should have 6 cells and has 5"),
        ("text", b"\tN\tcontrol\t", b"\tN\tcontrol\tx\t", "one letter|integer|INDEX"),
        ("text", b"\t6\t-1\t-1\t99\t ", b"", "fewer columns"),
        ("text", b"[Unit1_Block1]", b"[Unit1_Blok1]", "should have 3 blocks and has 2"),
        ("text", b"[Chip]", b"[Chips]", "no line Rows="),
    ],
)
def test_lines_of_text_files_are_checked(kind, old, new, message, write):
    read, data = VALID[kind]
    assert old in data
    with pytest.raises(MicroarrayFileError, match=message):
        read(write(data.replace(old, new, 1)))


def test_binary_cdf_numbers_are_checked(write):
    data = make_cdf("xda")
    first_place = 24 + 3 * 64
    unit = struct.unpack_from("<i", data, first_place + 4)[0]
    cases = [
        (4, "i", 2, "the version"),
        (8, "H", 0, "smaller side"),
        (8, "H", 5, "off the chip"),
        (12, "i", 2**31 - 1, "names of the units should take"),
        (16, "i", 2**31 - 1, "QC units should take"),
        (first_place + 4, "i", 10**9, "should start at byte 1,000,000,000"),
        (unit, "H", 2, "not an expression unit"),
        (unit + 7, "i", 2, "number of blocks"),
        (unit + 11, "i", 7, "says 7 cells, its block 6"),
    ]
    for place, form, value, message in cases:
        damaged = bytearray(data)
        struct.pack_into("<" + form, damaged, place, value)
        with pytest.raises(MicroarrayFileError, match=message):
            read_cdf(write(bytes(damaged)))


def test_units_that_share_their_bytes_are_refused(write):
    sets = {f"s{k}_at": [0] for k in range(3000)}
    sets["s0_at"] = list(range(30)) * 100
    data = bytearray(cdf_xda(sets, N_ROWS, N_COLS))
    places = 24 + 64 * len(sets) + 4
    first = struct.unpack_from("<i", data, places)[0]
    struct.pack_into(f"<{len(sets)}i", data, places, *[first] * len(sets))
    with pytest.raises(MicroarrayFileError, match="units overlap"):
        read_cdf(write(bytes(data)))


def test_a_damaged_or_endless_gzip_file_is_refused(write, monkeypatch):
    packed = gzip.compress(make_cel(4))
    for data in (packed[:-9], packed[:40], packed[:20] + b"xxxx" + packed[24:]):
        with pytest.raises(MicroarrayFileError, match="gzip"):
            read_cel(write(data))
    monkeypatch.setattr(files, "MAX_BYTES", 1 << 21)
    with pytest.raises(MicroarrayFileError, match="more than 2,097,152 bytes"):
        read_cel(write(gzip.compress(b"\0" * (1 << 24))))


PIECES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from([b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"=", b"\n[", b"]", b"\n"]),
    st.integers(0, 10**10).map(lambda value: str(value).encode()),
)
# Where bytes are changed, how many are replaced, and what by.
CHANGES = st.lists(
    st.tuples(st.integers(0, 10**4), st.integers(0, 8), PIECES), min_size=1, max_size=4
)


@pytest.mark.parametrize("kind", list(VALID))
def test_damage_raises_nothing_but_the_declared_error_and_takes_no_memory(kind, tmp_path):
    read, data = VALID[kind]
    path = tmp_path / "chip"

    @settings(
        max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(CHANGES)
    def check(changes):
        damaged = data
        for place, size, new in changes:
            place %= len(data)
            damaged = damaged[:place] + new + damaged[place + size :]
        path.write_bytes(damaged)
        tracemalloc.start()
        try:
            read(path)
        except MicroarrayFileError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 8 << 20

    check()
