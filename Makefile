# Every target sets up what it needs: `make demo` or `make test` is enough in a fresh clone.

PYTHON ?= python3
PYTHONS ?= 3.11 3.12 3.13
JOBS ?= 2
PORT ?= 8000
# `PYTHON=python3.13 make test` works in an environment of its own, .venv-3.13.
SUFFIX := $(filter-out 3,$(patsubst python%,%,$(notdir $(PYTHON))))
VENV := .venv$(if $(SUFFIX),-$(SUFFIX))
RUN := $(VENV)/bin/python
# A file runs on one process, so that what its tests share is made once; in order, so that short files come last.
TEST := $(RUN) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
SAY := @printf '== %s\n'

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-pythons test-floors test-browser chromium docs docs-serve lint bench bench-quick bench-dask build clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

demo: $(VENV)/.installed-cli ## The whole job on simulated patients: compare, fit, score, report; files in demo-output/
	@$(RUN) -m suquan demo --out demo-output

test: $(VENV)/.installed-test ## Run the tests, without the slow ones
	$(SAY) "tests on $(JOBS) processes"
	@$(TEST) -m "not slow and not browser"

test-slow: $(VENV)/.installed-test ## Run all tests, the slow ones too
	$(SAY) "all tests on $(JOBS) processes"
	@$(TEST) -m "not browser"

test-pythons: ## Run the tests on each of Python 3.11, 3.12 and 3.13 that is found, and with the oldest releases
	@failed=; for version in $(PYTHONS); do \
	python=$$(.ci/find-python $$version) || { printf '== Python %s: not found, skipped\n' $$version; continue; }; \
	printf '== Python %s: %s\n' $$version "$$python"; \
	$(MAKE) --no-print-directory PYTHON="$$python" test || failed="$$failed $$version"; done; \
	$(MAKE) --no-print-directory test-floors || failed="$$failed floors"; \
	[ -z "$$failed" ] || { printf '== failed:%s\n' "$$failed"; exit 1; }

test-floors: ## Run the tests on Python 3.11 with the oldest releases that pyproject.toml allows
	@python=$$(.ci/find-python 3.11) || { printf '== Python 3.11: not found, skipped\n'; exit 0; }; \
	printf '== the oldest releases: %s\n' "$$python"; NUMBA_CACHE_DIR="$$(pwd)/.venv-floors/numba" \
	$(MAKE) --no-print-directory PYTHON="$$python" VENV=.venv-floors CONSTRAINT=.venv-floors/floors.txt test

test-browser: $(VENV)/.installed-test $(VENV)/.installed-browser chromium docs ## Open the report and every page of the documentation in headless Chromium
	$(SAY) "tests in Chromium"
	@$(RUN) -m pytest -q -m browser tests/browser

# Chromium and its driver from Debian's packages, where they are not there yet.
chromium:
	@{ command -v chromium && command -v chromedriver; } > /dev/null || { set -e; \
	printf '== installing chromium and chromium-driver\n'; \
	$(SUDO) apt-get update -q > /dev/null; \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive \
	apt-get install -q -y --no-install-recommends chromium chromium-driver > /dev/null; }

docs: $(VENV)/.installed-docs ## Build the documentation in docs/_build/html, the gallery included
	$(SAY) "documentation, warnings as errors"
	@rm -rf docs/_build/html docs/api/generated # pages that are no more
	@$(RUN) -m sphinx -q -W --keep-going -d docs/_build/doctrees docs docs/_build/html
	@printf 'docs/_build/html/index.html\n'

docs-serve: docs ## Show the documentation on localhost, port 8000 or PORT
	@$(RUN) -m http.server --bind 127.0.0.1 --directory docs/_build/html $(PORT)

lint: $(VENV)/.installed-lint ## Check format, style and types
	$(SAY) "ruff format" && $(RUN) -m ruff format --check .
	$(SAY) "ruff check" && $(RUN) -m ruff check .
	$(SAY) "mypy" && $(RUN) -m mypy

bench: $(VENV)/.installed-bench ## Run the benchmarks; tables go to benchmarks/results/ and docs/benchmarks.md
	@$(RUN) -m benchmarks
	@$(RUN) -m benchmarks.update_readme

bench-quick: $(VENV)/.installed-bench ## Check in a minute that the benchmarks run; writes nothing
	@$(RUN) -m benchmarks --quick

bench-dask: $(VENV)/.installed-test ## Fits on Dask from a zarr file of 4 GB; tables go to benchmarks/results/
	@$(RUN) -m benchmarks.bench_dask

build: $(VENV)/.installed-build ## Build wheel and sdist, and try the wheel in an empty environment
	$(SAY) "wheel and sdist into dist/"
	@rm -rf dist && $(RUN) -m build --outdir dist . > /dev/null && ls dist
	$(SAY) "the wheel in an empty environment"
	@set -e; place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; wheel=$$(pwd)/$$(ls dist/*.whl); \
	$(PYTHON) -m venv "$$place/venv"; \
	"$$place/venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check "$$wheel"; \
	cd "$$place" && venv/bin/python -c 'import suquan; \
	print("suquan", suquan.__version__, suquan.quantile_normalize([[5, 4, 3], [2, 8, 2]], "mean").tolist())'

clean: ## Remove what the other targets made, the environment included
	rm -rf .venv .venv-* dist build demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/_build docs/api/generated docs/auto_examples
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

$(RUN):
	$(SAY) "environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# One stamp per extra: set-up runs once, and again when pyproject.toml changes.
$(VENV)/.installed-%: pyproject.toml | $(RUN)
	$(SAY) "installing suquan[$*]; the first time takes a minute or two"
	@$(if $(CONSTRAINT),$(RUN) .ci/floors.py > $(CONSTRAINT))
	@$(RUN) -m pip install --quiet --quiet --disable-pip-version-check --editable ".[$*]" \
	$(if $(CONSTRAINT),--constraint $(CONSTRAINT))
	@touch $@
