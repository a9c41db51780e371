"""The experiments of Le Morvan & Vert (2017) and others of ours, each staged run → table → plot.

``python -m experiments.NAME`` runs one in a clone; `stages.py` and `command.py` hold what they share.
"""
