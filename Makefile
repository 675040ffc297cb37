# What a developer and a first-time user type. Everything else is `python -m sandbox`,
# `python -m gpudirect` and `pulumi`.

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
REQUIREMENTS := requirements.txt requirements-tools.txt requirements-dev.txt
# One name per content: a changed pin installs anew, everything else costs nothing.
INSTALLED := $(VENV)/.installed-$(shell cat $(REQUIREMENTS) | cksum | tr ' ' '-')
SOURCES := __main__.py benchmarks components gpudirect sandbox tests
FAST_TESTS := tests/unit tests/components tests/contract
# The same order in each run: what lands must not hang on luck. `pytest` alone draws a new one.
PYTEST := -m pytest -n logical --randomly-seed=1 -m 'not cloud and not soak'

.DEFAULT_GOAL := help
.PHONY: help sandbox check lint test benchmark soak clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

sandbox: $(INSTALLED) ## Bring up stack dev without a cloud account, and show what came out
	@$(PY) -m sandbox.try_it dev

check: lint ## Lint, types, unit, component and contract tests
	@$(PY) $(PYTEST) -q $(FAST_TESTS)

lint: $(INSTALLED)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(PY) -m mypy $(SOURCES)
	@cd policy && ../$(PY) -m mypy --config-file ../pyproject.toml .
	@$(VENV)/bin/lint-imports
	@$(VENV)/bin/yamllint --strict .

test: lint ## Every check and test tier
	@$(PY) -m sandbox build
	@$(PY) $(PYTEST)

# BENCHMARKS="rest page" runs these alone; BENCHMARKS=--help lists them.
benchmark: $(INSTALLED) ## Print times, bounds, memory and growth: most of an hour
	@$(PY) -m benchmarks $(BENCHMARKS)

soak: $(INSTALLED) ## The whole fault matrix: an hour
	@$(PY) -m sandbox build
	@$(PY) -m pytest -m soak --timeout=0

clean: ## Stop the sandbox; remove it, .venv and caches (the toolchain in ~/.cache stays)
	@if [ -x $(PY) ] && [ -d .sandbox ]; then $(PY) -m sandbox reset --yes; fi
	@rm -rf .sandbox $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .coverage benchmarks/out sandbox/toolchain/*/*-embed.json
	@find . -name __pycache__ -prune -exec rm -rf {} +

$(INSTALLED): $(REQUIREMENTS)
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) was not found. Install Python 3.11 or newer, or name it:" \
			"make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing Python packages into $(VENV)"
	@[ -x $(PY) ] || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --disable-pip-version-check -r requirements-dev.txt
	@rm -f $(VENV)/.installed-*
	@touch $@
