# Everything a newcomer needs: `make demo` and `make test`. Each sets up .venv on first use.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test test-slow check lint format paper bench bench-training bench-paper bench-accuracy docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo        the paper's methods on real data, beside the paper's figures: a few minutes"
	@echo "make test        run the tests"
	@echo "make test-slow   run the tests marked slow"
	@echo "make check       lint, types, tests, coverage: what CI runs"
	@echo "make format      reformat the code"
	@echo "make paper       all of the paper on Bike Sharing at full scale: about an hour"
	@echo "make bench       time the loss against its peers (own environment)"
	@echo "make bench-training   time stacked training against its peers: about ten minutes"
	@echo "make bench-paper what the paper costs: about fifteen minutes"
	@echo "make bench-accuracy DATA=folder   judge the defaults on tables, beside peers: many hours"
	@echo "make docs        regenerate the tables and figures of README.md and docs/ from results/"
	@echo "make clean       remove environments and build products"

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

.venv-bench/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
	@touch $@

.venv-accuracy/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-accuracy
	.venv-accuracy/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[accuracy]"
	@touch $@

demo: .venv/ready
	$(BIN)/softbins paper run table curves --scale demo --store build/demo
	$(BIN)/softbins paper table bike --scale demo --store build/demo
	$(BIN)/softbins paper report --scale demo --store build/demo -o build/demo/report.html

paper: .venv/ready
	$(BIN)/softbins paper run --dataset bike --scale paper --store results
	$(MAKE) docs

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

bench-paper: .venv/ready
	$(BIN)/python benchmarks/paper.py

bench-accuracy: .venv-accuracy/ready
	.venv-accuracy/bin/python benchmarks/accuracy/run.py --data $(DATA)
	.venv-accuracy/bin/python benchmarks/accuracy/table.py

docs: .venv/ready
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/reproduction.py

clean:
	rm -rf .venv .venv-bench .venv-accuracy build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
