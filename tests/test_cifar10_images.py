"""CIFAR-10 from every copy of it that is understood, and from no damaged one."""

import numpy as np
import pytest
from data_files import data_file

from experiments.cifar10.images import BATCHES, load_cifar10, to_grey


def make_batches(per_batch=20):
    """Colours and classes of six batches."""
    colours = np.random.default_rng(0).integers(0, 256, (6, per_batch, 3072), np.uint8)
    return colours, np.tile(np.arange(10), (6, per_batch // 10))


def write_binary(folder, colours, labels):
    folder.mkdir(parents=True, exist_ok=True)
    for name, X, y in zip(BATCHES, colours, labels, strict=True):
        rows = np.concatenate([y[:, None].astype(np.uint8), X], axis=1)
        (folder / name).write_bytes(rows.tobytes())


def write_npz(folder, colours, labels):
    grey, y = to_grey(colours.reshape(-1, 3072)), labels.ravel().astype(np.int8)
    n = len(y) * 5 // 6
    parts = {"X_train": grey[:n], "y_train": y[:n], "X_test": grey[n:], "y_test": y[n:]}
    np.savez_compressed(folder / "cifar10_gray.npz", **parts)


WRITERS = {
    "npz": write_npz,
    "binary": write_binary,
    "binary, in its folder": lambda folder, *given: write_binary(
        folder / "cifar-10-batches-bin", *given
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
    expected = [np.asarray(Image.fromarray(image).convert("L")).ravel() for image in planes]
    np.testing.assert_array_equal(to_grey(colours[0]), expected)


def test_the_whole_data_set_has_its_known_counts():
    X, y = load_cifar10(data_file("cifar10_gray.npz"))
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


@pytest.mark.parametrize(
    ("write", "name", "damage", "message"),
    [
        (write_binary, BATCHES[0], lambda data: data[:-1], "are not a multiple"),
        (write_binary, BATCHES[0], lambda data: b"\x0b" + data[1:], "a class from 0 to 9"),
        (write_npz, "cifar10_gray.npz", lambda data: data[:1000], "is damaged"),
        (write_npz, "cifar10_gray.npz", lambda data: b"", "is damaged"),
        (write_npz, "cifar10_gray.npz", lambda data: data[:200] + b"xxxx" + data[204:], "is damaged"),
    ],
)  # fmt: skip
def test_damaged_copies_are_refused(write, name, damage, message, tmp_path):
    write(tmp_path, *make_batches())
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path)


def test_arrays_that_are_no_images_are_refused(tmp_path):
    arrays = {"X_train": np.zeros((2, 1024)), "y_train": [0, 1]}
    path = tmp_path / "cifar10_gray.npz"
    np.savez(path, X_test=arrays["X_train"], y_test=[0, 1], **arrays)
    with pytest.raises(ValueError, match="images of 1,024 bytes"):
        load_cifar10(path)
