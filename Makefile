# Everything a newcomer needs: `make run` shows the system working, `make test` proves it.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: setup run test test-slow test-long lint docs lock vendor clean

setup: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@echo "compiling kernels, by a first run: half a minute"
	@folder=$$(mktemp -d) && XDG_STATE_HOME=$$folder $(BIN)/das demo $$folder/out > $$folder/said 2>&1 || cat $$folder/said; rm -rf $$folder
	@touch $@

run: setup
	$(BIN)/das demo

# One process more than there are cores, for end-to-end tests wait much. Each takes whole files, or what tests/conftest.py
# puts together, in the order of their collection.
PYTEST := $(BIN)/python -m pytest --numprocesses $(shell expr $$(nproc) + 1) --maxprocesses 5 --dist loadfile \
  --no-loadscope-reorder --durations 30
unexport PYTHONDONTWRITEBYTECODE # or each process that tests start compiles all it imports

test: setup
	$(PYTEST) -m "not slow and not long"

test-slow: setup
	$(PYTEST) -m slow

test-long: setup
	$(PYTEST) -m long

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Runs every command that the pages show and writes what it prints: docs/cli.md, docs/tutorial.md.
docs: setup
	$(BIN)/python docs/commands.py

# Needs uv; the locks name versions and hashes, never a host. The second is a part of the first: what a container needs.
LOCK := uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
  pyproject.toml build-requirements.txt
lock:
	$(LOCK) --extra dev --output-file requirements.lock
	$(LOCK) --extra solvers --constraint requirements.lock --output-file deploy/requirements.lock

# The browser library that tests use (axe-core), at the version and hash of package-lock.json. Needs npm.
vendor:
	npm ci --prefix tests/vendor
	cd tests/vendor && npm run vendor

clean:
	rm -rf .venv build *.egg-info
