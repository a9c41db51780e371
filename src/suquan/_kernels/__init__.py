"""Compiled loops: arrays in, arrays out. Nothing here knows an estimator.

Every kernel is compiled by :func:`kernel`, runs without the interpreter lock, and works row by row, so
that callers may split the rows over threads without changing a bit of the result.
"""
