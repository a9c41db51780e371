"""Tables in text files: what is read, and what is refused with its place."""

import gzip
from itertools import product

import numpy as np
import pandas as pd
import pytest
from io_tables import put, refused

from suquan.io import Table, TableError, iter_row_blocks, read_table, write_table
from suquan.io._source import ReadOptions
from suquan.io.reading import open_source


def read(tmp_path, text, name="table.csv", **options):
    """The table, read at once and in blocks, which must agree."""
    path = put(tmp_path, text, name)
    table = read_table(path, **options)
    blocks = list(iter_row_blocks(path, rows_per_block=1, **options))
    assert np.array_equal(np.vstack([b.values for b in blocks]), table.values, equal_nan=True)
    assert [b.sample_names.item() for b in blocks] == table.sample_names.tolist()
    assert all((b.feature_names == table.feature_names).all() for b in blocks)
    return table


# -------------------------------------------------------------------------------------------------- taken


def test_line_ends_and_byte_order_marks_do_not_matter(tmp_path):
    for start, end, last in product(["", "\ufeff"], ["\n", "\r\n"], [True, False]):
        text = start + end.join(["sample,a,b", "s1,1,2", "s2,3,4"]) + (end if last else "")
        table = read(tmp_path, text)
        assert table.feature_names.tolist() == ["a", "b"]
        assert table.values.tolist() == [[1, 2], [3, 4]]
        assert (table.kind, table.orientation) == ("csv", "rows")


def test_names_stay_as_they_are_written(tmp_path):
    table = read(
        tmp_path, 'sample,1e5,x,x.1,"a,b", c\n007,1,2,3,4,5\nNA,1,2,3,4,5\n1.0,1,2,3,4,5\n'
    )
    assert table.feature_names.tolist() == ["1e5", "x", "x.1", "a,b", " c"]
    assert table.sample_names.tolist() == ["007", "NA", "1.0"]
    assert read(tmp_path, "sample,a\n0,1.5\n1,2.5\n").sample_names.tolist() == ["0", "1"]


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "null", "NULL", '""', '"NA"'])
def test_missing_values_have_these_spellings(tmp_path, cell):
    assert np.isnan(read(tmp_path, f"sample,a,b\ns1,{cell},1\ns2,2,3\n").values[0, 0])


@pytest.mark.parametrize(
    "cell",
    ["1e5", "+1.5", "-.5", "5.", " 7 ", '"1.5"', "1e-400", "1" * 30, "0.1000000000000000055"],
)
def test_numbers_are_the_nearest_doubles(tmp_path, cell):
    assert read(tmp_path, f"sample,a\ns1,{cell}\n").values.item() == float(cell.strip('"'))


def test_columns_of_text_and_those_that_are_named_are_labels(tmp_path):
    table = read(tmp_path, "sample,a,group,b\ns1,1,case,2\ns2,3,NA,4\n")
    assert table.feature_names.tolist() == ["a", "b"]
    assert table.labels["group"].tolist() == ["case", ""]
    text = "sample,a,y,code,2nd\ns1,1,1,007,1x\ns2,3,NA,2,2\n"
    table = read(tmp_path, text, label_columns=["y", "code"], ignore_columns=["2nd"])
    assert (table.feature_names.tolist(), list(table.labels)) == (["a"], ["y", "code"])
    assert np.array_equal(table.labels["y"], [1, np.nan], equal_nan=True)
    assert table.labels["code"].tolist() == ["007", "2"]


def test_samples_in_columns_with_rows_of_labels(tmp_path):
    text = "gene\ts1\ts2\ngroup\tcase\tNA\nTP53\t1\t+2\nage\t40\t\nESR1\tNA\t 4\n"
    options = {"samples": "columns", "label_columns": ["group", "age"]}
    table = read(tmp_path, text, "t.tsv", **options)
    assert table.orientation == "columns"
    assert table.feature_names.tolist() == ["TP53", "ESR1"]
    assert np.array_equal(table.values, [[1, np.nan], [2, 4]], equal_nan=True)
    assert table.labels["group"].tolist() == ["case", ""]
    assert np.array_equal(table.labels["age"], [40, np.nan], equal_nan=True)


def test_samples_are_found_by_their_names(tmp_path):
    text = "x,s1,s2\ng1,1,2\ng2,3,4\n"
    assert read(tmp_path, text, sample_names=["s2", "s9"]).sample_names.tolist() == ["s1", "s2"]
    assert read(tmp_path, text, sample_names=["g2"]).sample_names.tolist() == ["g1", "g2"]
    for names, said in ((["z"], "none of the 1"), (["s1", "g1"], "as many")):
        refused(said, read, tmp_path, text, sample_names=names)
    labels = "gene,s1,s2\nage,40,50\n"
    refused("no rows", read, tmp_path, labels, samples="columns", label_columns=["age"])


def tall(heading, n_rows=40, n_columns=20, separator=","):
    """A table with more rows than columns."""
    lines = [[heading, *(f"c{j}" for j in range(n_columns))]]
    lines += [[f"r{i}", *("1.5" for _ in range(n_columns))] for i in range(n_rows)]
    return "\n".join(separator.join(line) for line in lines)


@pytest.mark.parametrize("heading", ["", "id", "X", "sample of a gene"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet"])
def test_a_tall_table_of_which_nothing_says_where_its_samples_lie(tmp_path, heading, name):
    """The rows of expression files are genes more often than not."""
    path = tmp_path / name
    if name == "t.parquet":
        frame = pd.DataFrame(np.ones((40, 20)), columns=[f"c{j}" for j in range(20)])
        frame.insert(0, heading, [f"r{i}" for i in range(40)])
        frame.to_parquet(path, index=False)
    else:
        text = tall(heading, separator="," if name == "t.csv" else "\t").encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    said = r"samples='rows' for 40 samples \('r0', 'r1' and 38 more\) of 20 .* 20 samples of 40 features"
    for read_it in (read_table, iter_row_blocks):
        with pytest.raises(TableError, match=said):
            read_it(path)
    assert read_table(path, samples="rows").n_samples == 40
    assert read_table(path, samples="columns").n_samples == 20
    assert read_table(path, sample_names=["c3"]).orientation == "columns"
    if name != "t.parquet":
        assert read_table(path, label_columns=["c3"]).n_samples == 40


@pytest.mark.parametrize(
    ("heading", "orientation"),
    [
        *((heading, "rows") for heading in ("sample", "Patient_ID")),
        *((heading, "columns") for heading in ("gene", "Probe Set", "ID_REF")),
    ],
)
def test_the_heading_of_the_names_says_where_the_samples_lie(tmp_path, heading, orientation):
    for n_rows, n_columns in [(40, 20), (20, 40)]:
        path = put(tmp_path, tall(heading, n_rows, n_columns), "t.csv")
        assert read_table(path).orientation == orientation


def test_features_and_label_rows_say_where_the_samples_lie(tmp_path):
    path = put(tmp_path, tall("id", 40, 20), "t.csv")
    for features, orientation, told in (
        (frozenset({"c3", "other"}), "rows", "names of the model's features"),
        (frozenset({"r3"}), "columns", "names of the model's features"),
        (20, "rows", "number of the model's features"),
        (40, "columns", "number of the model's features"),
    ):
        source = open_source(path, ReadOptions(features=features))
        assert (source.orientation, source.why) == (orientation, f"chosen by the {told}")
    table = read_table(path, label_columns=["r39"])
    assert (table.orientation, table.n_features, list(table.labels)) == ("columns", 39, ["r39"])


def test_one_row_or_one_column_is_a_sample_and_other_tables_are_refused(tmp_path):
    """A panel of 8 genes and 96 patients is not 8 samples of 96 features."""
    assert read_table(put(tmp_path, tall("id", 1, 40), "t.csv")).values.shape == (1, 40)
    assert read_table(put(tmp_path, tall("id", 40, 1), "t.csv")).values.shape == (1, 40)
    assert read_table(put(tmp_path, tall("id", 1, 1), "t.csv")).orientation == "rows"
    for n_rows, n_columns in [(8, 96), (2, 2), (20, 40), (40, 40)]:
        path = put(tmp_path, tall("id", n_rows, n_columns), "t.csv")
        refused(f"cannot tell .*'columns' for {n_columns} samples of {n_rows}", read_table, path)
        assert read_table(path, samples="columns").values.shape == (n_columns, n_rows)


def test_features_that_are_all_unknown_are_named(tmp_path):
    path = put(tmp_path, tall("id"), "t.csv")
    features = frozenset(f"HS_{j}" for j in range(8659))
    said = (
        "none of the model's 8,659 features is in the table; the model has 'HS_0', the table 'r0'"
    )
    refused(said, open_source, path, ReadOptions(features=features))
    refused(
        r"but for case, .*: 2, such as 'C-2' and 'c2'",
        open_source,
        path,
        ReadOptions(features=frozenset({"C.1", "C-2", "other"})),
    )


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.npz"])
def test_columns_are_found_but_for_case_and_outer_blanks(tmp_path, name):
    table = Table(np.eye(3), ["a", "b", "c"], ["g1", "g2", "g3"], {"Age": [1.0, 2.0, 3.0]})
    write_table(table, tmp_path / name)
    assert list(read_table(tmp_path / name, label_columns=["age "]).labels) == ["Age"]
    if name != "t.npz":
        options = {"label_columns": ["Age"], "ignore_columns": [" G2"]}
        assert read_table(tmp_path / name, **options).feature_names.tolist() == ["g1", "g3"]
    both = Table(np.eye(3), ["a", "b", "c"], ["AGE", "g2", "g3"], {"Age": [1.0, 2.0, 3.0]})
    if name != "t.npz":
        write_table(both, tmp_path / name)
        refused("'age'", read_table, tmp_path / name, label_columns=["age"])


# ------------------------------------------------------------------------------------------------- refused

REFUSED = {
    "nothing": ("", "the file is empty"),
    "blank": ("\n\n", "holds no header"),
    "header": ("sample,a\n", "a header and no rows"),
    "one column": ("id\ns1\n", "line 1 has one cell"),
    "semicolons": ("id;a\ns1;1,5\n", "separated by semicolons.*decimal points"),
    "tabs": ("id\ta\ns1\t1\n", "separated by tabs.*name it .tsv"),
    "short": ("sample,a,b\ns1,1,2\ns2,3\n", "line 3 has 2 cells, the header has 3"),
    "long": ("sample,a,b\ns1,1,2\n\ns2,3,4,5\n", "line 4 has 4 cells"),
    "decimal comma": ("sample,a\ns1,1,5\n", "line 2 has 3 cells.*decimal commas"),
    "quoted comma": ('sample,a\ns1,2\ns2,"1,5"\n', "line 3, column 'a': '1,5'.*decimal point"),
    "text": ("sample,a,b\ns1,1,2\ns2,3,1e5x\n", "line 3, column 'b': '1e5x'"),
    "text first": ("sample,a\ns1,1e5x\ns2,3\n", "line 2, column 'a': '1e5x' is neither"),
    "mixed": ("sample,a,b\ns1,1,x\ns2,1,2\n", "line 3, column 'b': '2' in a column of text"),
    "other missing": ("sample,a\ns1,1\ns2,N/A\n", "line 3, column 'a': 'N/A'.*NA, NaN"),
    "padded missing": ("sample,a\ns1,1\ns2, NA\n", "line 3, column 'a': ' NA'"),
    "dash": ("sample,a,b\ns1,1,-\ns2,1,-\n", "line 2, column 'b': '-'"),
    "infinite": ("sample,a\ns1,1\ns2,inf\n", "line 3, column 'a': 'inf'"),
    "too large": ("sample,a\ns1,1\ns2,-1e400\n", "line 3.*too large for a double"),
    "other nan": ("sample,a\ns1,1\ns2,-nan\n", "line 3, column 'a': '-nan'"),
    "hexadecimal": ("sample,a\ns1,1\ns2,0x10\n", "line 3, column 'a'"),
    "underscore": ("sample,a\ns1,1\ns2,1_000\n", "line 3, column 'a'"),
    "other digits": ("sample,a\ns1,1\ns2,١\n", "line 3, column 'a'"),
    "twice a feature": ("sample,a,a\ns1,1,2\n", "'a' more than once"),
    "twice a sample": ("sample,a\ns1,1\ns1,2\n", "sample names: 's1' occurs more than once"),
    "feature without name": ("sample,a,\ns1,1,2\n", "column 3: a name is empty"),
    "sample without name": ("sample,a\ns1,1\n,2\n", "line 3, column 1: a name is empty"),
    "control": ("sample,a\ns\x001,1\n", "control character"),
    "no names": ("a,b\n1.5,2\n2.5,3\n", "line 2: the first column holds the names"),
    "no numbers": ("sample,a\ns1,x\ns2,y\n", "no column of numbers"),
    "latin": (b"sample,a\ns1,1\ns\xe9,2\n", "line 3 is not UTF-8"),
    "latin header": (b"id,\xe9\ns1,1\n", "line 1 is not UTF-8"),
    "utf-16": ("sample,a\ns1,1\n".encode("utf-16"), "UTF-16"),
    "open quote": ('sample,a\ns1,"1\ns2,2\n', "cannot be split|not a usable"),
    "text after quote": ('sample,a\ns1,1\ns2,"1"2\n', "line 3 cannot be split"),
    "gzip": (gzip.compress(b"sample,a\ns1,1\n"), "gzip-compressed data .name it .csv.gz"),
    "zip": (b"PK\x03\x04xxxx", "a zip file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_doubtful_files_are_refused_with_the_place(tmp_path, case):
    text, said = REFUSED[case]
    path = put(tmp_path, text, "t.csv")
    assert refused(said, read_table, path).startswith(f"{path}: ")
    refused(said, lambda: list(iter_row_blocks(path, rows_per_block=1)))


def test_a_column_that_shows_text_late_is_named(tmp_path):
    text = "sample,a,b\n" + "".join(f"s{i},1,NA\n" for i in range(200)) + "t,1,word\n"
    refused(
        r"line 202, column 'b': 'word'.*label_columns", read_table, put(tmp_path, text, "t.csv")
    )
    table = read_table(put(tmp_path, text, "t.csv"), label_columns=["b"])
    assert table.labels["b"][-1] == "word"


def test_rows_written_by_r_without_a_name_for_the_first_column(tmp_path):
    refused(r"col.names=NA", read_table, put(tmp_path, "a\tb\ns1\t1\t2\n", "t.tsv"))


def test_a_description_beside_samples_in_columns(tmp_path):
    path = put(tmp_path, "gene,symbol,s1\ng1,TP53,1\n", "t.csv")
    refused(
        r"column 'symbol': 'TP53'.*ignore_columns \('symbol'\)", read_table, path, samples="columns"
    )
    table = read_table(path, samples="columns", ignore_columns=["symbol"])
    assert table.values.tolist() == [[1.0]]


def test_files_that_are_none(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for name, said in [
        ("none.csv", "no such file"),
        ("folder.csv", "directory"),
        ("x.xlsx", "known are"),
        ("x", "known are"),
        ("x.npz.gz", "known are"),
    ]:
        refused(said, read_table, tmp_path / name)


def test_a_truncated_gzip_file_is_refused(tmp_path):
    text = "sample,a,b\n" + "".join(f"s{i},{i / 7},{i / 3}\n" for i in range(500))
    packed = gzip.compress(text.encode())
    for content in (packed[:5], packed[:15], packed[:40], packed[:-1], b"sample,a\ns1,1\n"):
        path = put(tmp_path, content, "t.csv.gz")
        refused("damaged|truncated|not gzip", read_table, path)


def test_options_that_make_no_sense(tmp_path):
    path = put(tmp_path, "sample,a\ns1,1\n", "t.csv")
    for options in ({"samples": "up"}, {"label_columns": "y"}, {"ignore_columns": "y"}):
        with pytest.raises(ValueError, match=r"samples must be|several names") as caught:
            read_table(path, **options)
        assert not isinstance(caught.value, TableError)
    refused("layers are a part of h5ad", read_table, path, layer="counts")
    for samples in ("rows", "columns"):
        for option in ("label_columns", "ignore_columns"):
            refused(f"{option} names 'z'", read_table, path, samples=samples, **{option: ["z"]})
