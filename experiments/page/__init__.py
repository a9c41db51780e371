"""Numbers of the page ``docs/experiments.md`` and the result files that they come from."""
