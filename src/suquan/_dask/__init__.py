"""What the library does on Dask arrays; loaded only when one is given."""
