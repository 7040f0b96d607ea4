# make demo: the quick study, from nothing to a table and a page.   make check docs test-all: what CI runs.
PYTHON ?= python3
VENV ?= .venv
DATA ?= data
TORCH_INDEX ?=
MINUTES ?= 30
BIN := $(VENV)/bin
# Tests at once: one more than there are cores, because some wait.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(os.cpu_count() + 1, 8))')
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: setup own demo check docs test test-all test-one test-whole test-faults bench gpu-bench trial small-images puzzles pictures readme clean

setup:
# Who has this checkout in PYTHONPATH works in an environment as it is, and installs nothing there.
ifeq (,$(and $(findstring :$(CURDIR):,:$(PYTHONPATH):),$(wildcard $(BIN)/python)))
setup: own $(VENV)/installed
endif

# An environment has one checkout, whose code it runs: that of another one is not moved here unasked.
own:
	@other=$$(test ! -x $(BIN)/python || $(BIN)/python -m pip show recstudy 2>&1 | sed -n 's/^Editable project location: //p'); \
	test ! -d "$$other" || test "$$other" -ef . || { echo >&2 "$(VENV) has the recstudy of $$other, and not that of $(CURDIR):\
	 give this one an environment of its own, make $(or $(MAKECMDGOALS),setup) VENV=.venv-own, or uninstall the other"; exit 2; }

$(VENV)/installed: pyproject.toml | own
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "recstudy needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ". Name another with PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing recstudy with all extras into $(VENV): downloads 3 GB, fills 6 GB, takes 4 to 10 minutes. Most of it is CUDA;"
	@echo "make setup TORCH_INDEX=URL, of a package index with CPU-only wheels of torch and torchvision, is done without."
	@test -z "$(TORCH_INDEX)" || $(BIN)/python -m pip install --disable-pip-version-check --index-url "$(TORCH_INDEX)" torch torchvision
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

demo: setup
	$(BIN)/python studies/vitrm_depth_sweep.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/hadolint Dockerfile
	$(BIN)/actionlint -shellcheck= -pyflakes= .github/workflows/*.yml
	$(BIN)/python docs/tools/study_pages.py --check
	$(BIN)/python docs/tools/data_pages.py --check
	$(BIN)/python docs/tools/results_table.py --check
	$(BIN)/python docs/tools/layers.py --check
	$(BIN)/python docs/tools/json_page.py --check
	$(BIN)/python docs/tools/llms.py --check
	$(BIN)/python docs/tools/budget.py

# The pages of docs/ into build/site; a warning is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

test: setup
	$(PYTEST)

# One file or test, whatever its marks: make test-one T=tests/faults/test_nodes.py
test-one: setup
	$(BIN)/python -m pytest -m "" $(T)

# Whole commands, clusters, browsers and trainings, as a user has them: each study of studies/ with --smoke, and others.
test-whole: setup
	$(PYTEST) -m whole --durations=20

# All of both.
test-all: setup
	$(PYTEST) -m "not fault" --durations=20

# Every fault, injected for real. Some need root, and are skipped without.
test-faults: setup
	$(PYTEST) -m fault --durations=0

# The commands of docs/how-to/cluster.md on five machines of this one. By root; DATA holds cifar-10-batches-py/.
trial: setup
	tests/benchmarks/trial.sh $(DATA)

bench: setup
	$(BIN)/python tests/benchmarks/overhead.py

# What one GPU does in half an hour, and goes on with the next time; its records are in build/gpu_day. DATA as for small-images.
gpu-bench: setup
	DATA=$(DATA) tests/benchmarks/gpu_day.sh $(MINUTES)

# The rows of MNIST and CIFAR-10 of HRM-Small-Images, for a GPU: three seeds, about 25 PFLOP in total; DATA: MNIST/ and cifar-10-batches-py/
small-images: setup
	$(BIN)/python studies/hrm_small_images.py --preset paper --only "data=MNIST*" --only "data=CIFAR-10,*" --data $(DATA)
	$(BIN)/python docs/tools/study_pages.py --take hrm_small_images/paper

# TRM-MLP on Sudoku-Extreme as published, for a GPU: 2.1 EFLOP, two or three hours of an H100; DATA holds sudoku-extreme/.
puzzles: setup
	$(BIN)/python studies/sudoku_depth.py --preset paper --only "supervision_steps=16, cycles=3, latent_steps=6" --seeds 1 --data $(DATA)
	$(BIN)/python docs/tools/study_pages.py --take sudoku_depth/paper

# The pictures of README and docs, or some: make pictures P="board.png judge.png"
pictures: setup
	$(BIN)/python docs/tools/pictures.py $(P)

readme: setup
	$(BIN)/python docs/tools/study_pages.py
	$(BIN)/python docs/tools/results_table.py
	$(BIN)/python docs/tools/data_pages.py
	$(BIN)/python docs/tools/layers.py
	$(BIN)/python docs/tools/json_page.py
	$(BIN)/python docs/tools/llms.py

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
