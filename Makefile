# Everything a newcomer needs: `make demo` and `make test`. Each sets up .venv on first use.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test test-slow check lint format bench bench-training docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo        train a small network with the Histogram Loss and plot what it predicts"
	@echo "make test        run the tests"
	@echo "make test-slow   run the tests marked slow"
	@echo "make check       lint, types, tests, coverage: what CI runs"
	@echo "make format      reformat the code"
	@echo "make bench       time the loss against its peers (own environment)"
	@echo "make bench-training   time stacked training against its peers: about ten minutes"
	@echo "make docs        regenerate the tables in README.md from the records in results/"
	@echo "make clean       remove environments and build products"

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

.venv-bench/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	@touch $@

demo: .venv/ready
	$(BIN)/python examples/demo.py

test: .venv/ready
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/ready
	$(BIN)/python -m pytest -n 2 -m slow

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint
	$(BIN)/python -m pytest -n 2 -m "not slow" --cov --cov-report=term

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv-bench/ready
	.venv-bench/bin/python benchmarks/loss.py

bench-training: .venv-bench/ready
	.venv-bench/bin/python benchmarks/training.py

docs: .venv/ready
	$(BIN)/python docs/tables.py

clean:
	rm -rf .venv .venv-bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
