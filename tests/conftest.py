import os

# Before SciPy is imported: scikit-learn's array API checks need it.
os.environ["SCIPY_ARRAY_API"] = "1"

collect_ignore_glob = ["data/*"]
