"""Variants of crossfit, chosen on some data sets and confirmed on others."""
