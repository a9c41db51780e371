"""Fits and predictions on Dask arrays: the same solvers, with sums that come from blocks of rows."""
