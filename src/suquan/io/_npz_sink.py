"""Writing NumPy archives, compressed: ``X``, ``features``, ``samples``, and one array per label."""

import shutil
import tempfile
import zipfile

import numpy as np
from numpy.lib import format as npy

from suquan.io._errors import TableError, quoted
from suquan.io._npz import FEATURES, SAMPLES
from suquan.io._sinks import Target
from suquan.io._table import Table


class NpzSink:
    """X waits in a temporary file, because its header needs the number of samples."""

    def __init__(self, target: Target):
        self._target = target
        self._X = tempfile.TemporaryFile(dir=target.path.parent)  # noqa: SIM115
        self._blocks: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
        self._features = np.empty(0, dtype=str)
        self._dtype = np.dtype(np.float64)

    def write(self, block: Table) -> None:
        """Append samples."""
        if not self._blocks:
            self._features, self._dtype = block.feature_names, block.values.dtype
            self._check_labels(block)
        self._blocks.append((block.sample_names, block.labels))
        self._X.write(np.ascontiguousarray(block.values, dtype=self._dtype).data)

    def _check_labels(self, block: Table) -> None:
        for name in block.labels:
            if name in ("X", *FEATURES, *SAMPLES) or "/" in name or "\\" in name:
                raise TableError(
                    f"{self._target.name}: {quoted(name)} cannot name a label in an npz file; rename it"
                )

    def finish(self) -> None:
        """Write the archive."""
        names = np.concatenate([names for names, _ in self._blocks])
        labels = {
            name: np.concatenate([labels[name] for _, labels in self._blocks])
            for name in self._blocks[0][1]
        }
        with zipfile.ZipFile(self._target.path, "w", zipfile.ZIP_DEFLATED) as archive:
            self._write_X(archive, len(names))
            for name, array in {"features": self._features, "samples": names, **labels}.items():
                with _member(archive, name) as file:
                    npy.write_array(file, array, allow_pickle=False)
        self._X.close()

    def _write_X(self, archive: zipfile.ZipFile, n_samples: int) -> None:
        shape = (n_samples, len(self._features))
        descr = npy.dtype_to_descr(self._dtype)
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        self._X.seek(0)
        with _member(archive, "X") as file:
            npy.write_array_header_1_0(file, header)
            shutil.copyfileobj(self._X, file, 2**20)

    def abandon(self) -> None:
        """Throw the values away."""
        self._X.close()


def _member(archive: zipfile.ZipFile, name: str):
    # A fixed date, so that the same table gives the same bytes.
    info = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    return archive.open(info, "w", force_zip64=True)
