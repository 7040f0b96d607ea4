# make demo: the quick study, from nothing to a table and a page.   make check test test-smoke: what CI runs.
PYTHON ?= python3
VENV := .venv
DATA ?= data
BIN := $(VENV)/bin

.PHONY: setup demo check test test-smoke test-faults bench gpu-bench small-images puzzles pictures readme clean

setup: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "recstudy needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ". Name another with PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing recstudy and what it needs into $(VENV) (a few GB, some minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: setup
	$(BIN)/python studies/vitrm_depth_sweep.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python studies/index.py --check

test: setup
	$(BIN)/python -m pytest

# Every study of studies/ with --smoke, and others, each from the command to the page.
test-smoke: setup
	$(BIN)/python -m pytest -m "smoke and not slow"

# Every fault, injected for real, and the other tests that take long, in two halves side by side, because they mostly wait: those that
# start Ray for themselves, and those that join a cluster. Some need root, and are skipped without.
ALONE := $(addprefix tests/faults/test_,any_moment.py disk.py results.py)

test-faults: setup
	$(BIN)/python -m pytest -m "" --durations=0 $(ALONE) & alone=$$!; \
	$(BIN)/python -m pytest -m slow --durations=0 $(addprefix --ignore=,$(ALONE)); joined=$$?; \
	wait $$alone && exit $$joined

bench: setup
	$(BIN)/python studies/bench/overhead.py

gpu-bench: setup
	$(BIN)/python studies/bench/overhead.py throughput recursion experts

# 004 in full, for a GPU: MNIST and CIFAR-10, three seeds, about 20 PFLOP each; DATA holds MNIST/ and cifar-10-batches-py/.
small-images: setup
	$(BIN)/python studies/hrm_small_images.py --preset paper --only "data=MNIST*" --only "data=CIFAR-10,*" --data $(DATA)
	$(BIN)/python studies/index.py --take hrm_small_images/paper

# TRM-MLP on Sudoku-Extreme as published, for a GPU: 2.1 EFLOP, two or three hours of an H100; DATA holds sudoku-extreme/.
puzzles: setup
	$(BIN)/python studies/sudoku_depth.py --preset paper --only "supervision_steps=16, cycles=3, latent_steps=6" --seeds 1 --data $(DATA)
	$(BIN)/python studies/index.py --take sudoku_depth/paper

pictures: setup
	$(BIN)/python studies/pictures.py

readme: setup
	$(BIN)/python studies/index.py

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
