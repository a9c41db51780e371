"""CIFAR-10 from every copy of it that is understood, and from none."""

import os
import pickle

import numpy as np
import pytest
from data_files import data_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.cifar10.images import BATCHES, load_cifar10, to_grey
from experiments.cifar10.plain_pickle import load_plain_pickle


def make_batches(per_batch=20, seed=0):
    """Colours and classes of six batches."""
    rng = np.random.default_rng(seed)
    shape = (6, per_batch, 3072)
    labels = np.tile(np.arange(10), (6, per_batch // 10))
    return rng.integers(0, 256, size=shape, dtype=np.uint8), labels


def old_pickle(batch):
    """The pickle as Python 2 wrote it: text as 8-bit strings, arrays under numpy's old names."""
    data, labels = batch[b"data"], batch[b"labels"]

    def string(value):
        if len(value) < 256:
            return b"U" + bytes([len(value)]) + value
        return b"T" + len(value).to_bytes(4, "little") + value

    def integer(value):
        return b"K" + bytes([value]) if value < 256 else b"M" + value.to_bytes(2, "little")

    dtype = b"cnumpy\ndtype\n" + string(b"u1") + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + string(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
        + string(b"b")
        + b"\x87R"
    )
    array += b"(K\x01" + integer(data.shape[0]) + integer(data.shape[1]) + b"\x86" + dtype
    array += b"\x89" + string(data.tobytes()) + b"tb"
    list_ = b"](" + b"".join(integer(label) for label in labels) + b"e"
    pairs = string(b"batch_label") + string(b"training batch 1 of 5")
    pairs += string(b"labels") + list_ + string(b"data") + array
    return b"\x80\x02}(" + pairs + b"u."


def write_python(folder, colours, labels, dump):
    folder.mkdir(parents=True, exist_ok=True)
    for name, X, y in zip(BATCHES, colours, labels, strict=True):
        (folder / name).write_bytes(dump({b"data": X, b"labels": y.tolist(), b"batch_label": b"x"}))


def write_binary(folder, colours, labels):
    folder.mkdir(parents=True, exist_ok=True)
    for name, X, y in zip(BATCHES, colours, labels, strict=True):
        rows = np.concatenate([y[:, None].astype(np.uint8), X], axis=1)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())


def write_npz(path, colours, labels):
    grey = to_grey(colours.reshape(-1, 3072))
    y = labels.ravel().astype(np.int8)
    n = len(y) * 5 // 6
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, X_train=grey[:n], y_train=y[:n], X_test=grey[n:], y_test=y[n:])


def write_pickles(protocol):
    def write(folder, X, y):
        write_python(folder, X, y, lambda batch: pickle.dumps(batch, protocol))

    return write


WRITERS = {
    "npz": lambda folder, X, y: write_npz(folder / "cifar10_gray.npz", X, y),
    "python 2": lambda *given: write_python(*given, old_pickle),
    "python 3 for python 2": write_pickles(2),
    "python 3": write_pickles(4),
    "binary": write_binary,
    "binary, in subfolder": lambda folder, *rest: write_binary(
        folder / "cifar-10-batches-bin", *rest
    ),
}


@pytest.mark.parametrize("kind", list(WRITERS))
def test_every_copy_gives_the_same_images(kind, tmp_path, monkeypatch):
    colours, labels = make_batches()
    WRITERS[kind](tmp_path, colours, labels)
    monkeypatch.setenv("SUQUAN_DATA", str(tmp_path))
    for path in (tmp_path, None):
        X, y = load_cifar10(path)
        assert X.dtype == np.uint8
        np.testing.assert_array_equal(X, to_grey(colours.reshape(-1, 3072)))
        np.testing.assert_array_equal(y, labels.ravel())
    X_train, y_train = load_cifar10(tmp_path, subset="train")
    np.testing.assert_array_equal(X_train, X[:100])
    np.testing.assert_array_equal(y_train, y[:100])


def test_grey_is_that_of_pil():
    Image = pytest.importorskip("PIL.Image")  # comes with matplotlib
    colours, _ = make_batches(10)
    planes = colours[0].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    expected = [np.asarray(Image.fromarray(picture).convert("L")).ravel() for picture in planes]
    np.testing.assert_array_equal(to_grey(colours[0]), expected)


def test_the_whole_data_set_has_its_known_counts():
    path = data_file("cifar10_gray.npz")
    X, y = load_cifar10(path)
    assert X.shape == (60_000, 1024)
    assert np.bincount(y[:50_000]).tolist() == [5_000] * 10
    assert np.bincount(y[50_000:]).tolist() == [1_000] * 10


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no CIFAR-10 in .*cifar10_gray.npz"):
        load_cifar10(tmp_path)
    write_binary(tmp_path, *make_batches())
    (tmp_path / "data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks data_batch_3.bin"):
        load_cifar10(tmp_path)


class Evil:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize(
    "call",
    [(os.system, "touch ran"), (eval, "open('ran', 'w')"), (np.fromfile, "x"), (bytearray, 9)],
)
def test_pickles_that_call_anything_are_refused_and_nothing_runs(
    call, protocol, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({b"data": Evil(*call), b"labels": [1]}, protocol))
    with pytest.raises(ValueError, match="not a pickle of plain arrays"):
        load_plain_pickle(path)
    assert not (tmp_path / "ran").exists()


def test_a_pickle_names_what_it_asks_for_and_takes_no_memory(tmp_path):
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps({b"data": Evil(os.getpid), b"labels": [1]}, 2))
    with pytest.raises(ValueError, match=r"it asks for posix\.getpid|it asks for nt\.getpid"):
        load_plain_pickle(path)
    path.write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")  # a memo of two thousand million places
    with pytest.raises(ValueError, match="memo"):
        load_plain_pickle(path)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}, "a class from 0 to 9"),
        ({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, [2]]}, "list of integers"),
        ({b"data": np.zeros((2, 3071), np.uint8), b"labels": [1, 2]}, "images of 3,072 bytes"),
        ({b"data": [1, 2], b"labels": [1, 2]}, "wanted an array"),
        ({b"data": np.zeros((2, 3072)), b"labels": [1, 2]}, "arrays of type 'f8'"),
    ],
)
def test_python_batches_are_checked(batch, message, tmp_path):
    write_python(tmp_path, *make_batches(), old_pickle)
    (tmp_path / "data_batch_2").write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path)


def test_binary_batches_and_npz_files_are_checked(tmp_path):
    colours, labels = make_batches()
    write_binary(tmp_path, colours, labels)
    path = tmp_path / "data_batch_1.bin"
    good = path.read_bytes()
    for data, message in (
        (good[:-1], "are not a multiple"),
        (b"\x0b" + good[1:], "a class from 0 to 9"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            load_cifar10(tmp_path)
    path = tmp_path / "cifar10_gray.npz"
    write_npz(path, colours, labels)
    whole = path.read_bytes()
    for data in (whole[:1000], b"", whole[:200] + b"xxxx" + whole[204:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="is damaged"):
            load_cifar10(path)


def test_damaged_pickles_raise_nothing_but_a_value_error(tmp_path):
    path = tmp_path / "test_batch"
    data = pickle.dumps({b"data": np.arange(60, dtype=np.uint8), b"labels": [1, 2]}, 2)

    @settings(
        max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.integers(0, len(data) - 1), st.binary(min_size=1, max_size=6), st.booleans())
    def check(place, new, insert):
        path.write_bytes(data[:place] + new + data[place + (0 if insert else len(new)) :])
        try:
            load_plain_pickle(path)
        except ValueError as error:
            if "is damaged" not in str(error):
                raise

    check()
