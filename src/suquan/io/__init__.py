"""Tables in files: expression values with their names, labels of the samples, survival times.

Readers and writers for CSV, TSV, Parquet, GCT, GEO series matrix, h5ad and npz. Parquet needs the extra ``io``,
h5ad and zarr need ``anndata``, matrices in blocks ``dask``; each is loaded when it is used.
"""

from suquan.io._errors import TableError
from suquan.io._table import Table
from suquan.io.blocks import BlockTable, open_block_table, open_blocks, write_blocks
from suquan.io.labels import (
    LabelTable,
    SelectedLabels,
    SurvivalLabels,
    read_labels,
    select_labels,
    select_numbers,
    survival_labels,
)
from suquan.io.reading import iter_row_blocks, read_table
from suquan.io.writing import TableWriter, write_table

__all__ = [
    "BlockTable",
    "LabelTable",
    "SelectedLabels",
    "SurvivalLabels",
    "Table",
    "TableError",
    "TableWriter",
    "iter_row_blocks",
    "open_block_table",
    "open_blocks",
    "read_labels",
    "read_table",
    "select_labels",
    "select_numbers",
    "survival_labels",
    "write_blocks",
    "write_table",
]
