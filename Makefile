# Everything a newcomer needs: `make run` shows the system working, `make test` proves it.
# The newest Python of this machine that requirements.lock covers; where there is none, uv downloads one.
PYTHON ?= $(or $(shell for each in 3.14 3.13 3.12 3.11; do \
  python$$each -c "" 2>/dev/null && echo python$$each && break; done),>=3.11,<3.15)
VENV := .venv
BIN := $(VENV)/bin
LOCKED := --no-deps --require-hashes --requirement requirements.lock
ITSELF := --no-deps --no-build-isolation --editable .
define COMPILE_ROUNDING
import pathlib, sys, tasks.lifecycle.process
tasks.lifecycle.process.keep_kernels(pathlib.Path(sys.argv[1]))
import spine.top_down.rounding
spine.top_down.rounding.compile_rounding()
endef
export COMPILE_ROUNDING

# Run an installer and report how far it is, from the lines in which uv or pip name packages and sizes; all its lines where it fails.
define PROGRESS
import re, subprocess, sys
print_now = lambda text: print("  " + text, flush=True)
sizes, got, told, lines = {}, 0.0, 0.0, []
installer = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
for line in installer.stdout:
    lines.append(line)
    if found := re.match(r"Downloading (\S+) \((.+)MiB\)", line):  # uv, before it has it
        sizes[found[1]] = float(found[2])
    elif found := re.match(r" *Downloaded (\S+)", line):
        got += sizes.pop(found[1], 0)
    elif found := re.match(r" +Downloading \S+ \((.+) MB\)", line):  # pip
        got += float(found[1])
    elif re.match("Resolved|Prepared|Installed|Installing", line):
        print_now(" ".join(line.split()[:3]))
    if got >= told + 50:
        told = got
        print_now(f"downloaded {got:.0f} MB" + (f", {sum(sizes.values()):.0f} to come" if sizes else ""))
if installer.wait():
    sys.exit("".join(lines))
endef
export PROGRESS

.PHONY: setup run test test-python test-slow test-long test-scheduled lint docs pictures site wheel lock vendor clean

setup: $(VENV)/.installed

# uv installs in seconds what takes pip more than a minute. Where there is no uv, pip brings the locked one; where uv finds no packages
# (it does not read pip's configuration), pip installs them. The run proves the installation and compiles the kernels it meets; those
# of the rounding, which come last, are compiled meanwhile.
$(VENV)/.installed: requirements.lock uv-requirements.lock pyproject.toml
	@echo "installing packages into $(VENV) for $(PYTHON): half a gigabyte where all must be downloaded"
	@uv --version >/dev/null 2>&1 || [ -x build/uv/bin/uv ] || { python3 -m venv build/uv && build/uv/bin/python -m pip \
	  install --quiet --disable-pip-version-check --require-hashes --requirement uv-requirements.lock; }
	@uv=$$(uv --version >/dev/null 2>&1 && echo uv || echo build/uv/bin/uv); export VIRTUAL_ENV=$(abspath $(VENV)); \
	$$uv venv --quiet --allow-existing --python "$(PYTHON)" $(VENV) && \
	  python3 -c "$$PROGRESS" $$uv pip install $(LOCKED) && $$uv pip install --quiet $(ITSELF) || { \
	  echo "uv could not install them: trying pip, two minutes"; "$(PYTHON)" -m venv $(VENV) && \
	  python3 -c "$$PROGRESS" $(BIN)/python -m pip install --progress-bar off $(LOCKED) && $(BIN)/python -m pip install --quiet $(ITSELF); }
	@echo "compiling kernels, in two processes, and a first run: half a minute"
	@folder=$$(mktemp -d); export XDG_STATE_HOME=$$folder; $(BIN)/python -c "$$COMPILE_ROUNDING" $$folder > $$folder/compiled 2>&1 & \
	{ $(BIN)/das demo $$folder/out && touch $$folder/ran; } | sed -u 's/ *das show.*//; s/^/  /'; \
	{ wait $$! && [ -e $$folder/ran ]; } || { cat $$folder/compiled; rm -rf $$folder; exit 1; }; rm -rf $$folder
	@touch $@
	@echo "installed: . $(BIN)/activate puts das on the path"

run: setup
	$(BIN)/das demo

# Slow tests, which wait much, go file by file to two processes more than there are cores.
PYTEST := $(BIN)/python -m pytest --durations 30
BY_FILE := $(PYTEST) --numprocesses $(shell expr $$(nproc) + 2) --maxprocesses 6 --dist loadfile --no-loadscope-reorder
unexport PYTHONDONTWRITEBYTECODE # or each process that tests start compiles all it imports

TESTS := not ci and not slow and not long
test: setup
	$(BIN)/python tests/rooms.py -q --durations 10 -m "$(TESTS)"

# The same on another Python, in an environment of its own below build/: make test-python PYTHON=python3.13, or a path.
# tests/debian_python.sh runs it on the Python of another Debian suite.
test-python:
	$(MAKE) test VENV=build/$(notdir $(PYTHON))

test-slow: setup
	$(BY_FILE) -m slow

test-long: setup
	$(BY_FILE) -m long

test-scheduled: setup
	$(BIN)/python -m pytest -q -m scheduled tests/e2e

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Runs the commands that pages show and writes what they print.
docs: setup
	$(BIN)/python docs/commands.py

# Runs the commands that README shows, writes what they print, and takes the pictures of README and docs/show.md of what they
# release; with the map: make pictures BLOCKS=ri2020.pl.zip. Needs chromium and chromedriver.
pictures: setup
	$(BIN)/python docs/screenshots.py readme $(BLOCKS)

# The documentation in build/site, with search, every command's help, every table's columns and a reference of the API. And the
# pages of a release to look at: of `das demo`'s made-up country, or on the blocks of `make site BLOCKS=ri2020.pl.zip`, as README
# makes them. A link that leads nowhere fails.
DEMO := $(CURDIR)/build/demo
site: setup
	rm -rf build/site $(DEMO)
	mkdir -p $(DEMO)
	$(BIN)/das demo $(DEMO)/out > $(DEMO)/said 2>&1 || { cat $(DEMO)/said; exit 1; }
	mv $(DEMO)/out/demo-* $(DEMO)/made
	$(BIN)/python docs/cli.py
	$(BIN)/python docs/tables.py $(DEMO)/made
	$(BIN)/python -m sphinx --quiet --fail-on-warning -c docs/site . build/site
	{ release=$(DEMO)/made/release/us; [ -z "$(BLOCKS)" ] || { release=$(DEMO)/release/us && \
	  $(BIN)/das synth $(BLOCKS) $(DEMO)/made/params $(DEMO)/blocks && \
	  $(BIN)/das run $(DEMO)/blocks/params $(DEMO)/blocks/data $(DEMO)/release; } && \
	$(BIN)/das show $$release --export build/site/release; } > $(DEMO)/said 2>&1 || { cat $(DEMO)/said; exit 1; }
	rm -r $(DEMO)
site: export XDG_STATE_HOME = $(DEMO)/state

# The source distribution in build/dist and, made from it alone, the wheel: pip install build/dist/das_flows-….whl
wheel: setup
	$(BIN)/python tests/wheel.py build/dist

# Needs uv; the locks name versions and hashes, never a host. One file serves Python 3.11 to 3.14, with markers where a package
# has no version for all of them: pip reads it too, where a uv.lock would tie an installation to uv and name an index.
# The second is a part of the first: what a container needs.
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
  pyproject.toml build-requirements.txt
lock:
	$(LOCK) --extra dev --output-file requirements.lock
	$(LOCK) --constraint requirements.lock --output-file deploy/requirements.lock
	echo uv | uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --output-file uv-requirements.lock -

# The browser library that tests use (axe-core), at the version and hash of package-lock.json. Needs npm.
vendor:
	npm ci --prefix tests/vendor
	cd tests/vendor && npm run vendor

clean:
	rm -rf .venv build *.egg-info
