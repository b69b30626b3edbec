# Everything a newcomer needs: `make demo` and `make test`. Each sets up .venv on first use.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# In two processes, each file in one of them: what its tests share is made once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test test-slow check lint format paper bench bench-training bench-serving bench-jobs bench-large bench-scale bench-onnx bench-paper bench-accuracy bench-hard bench-ablation bench-rl bench-bins docs site dist clean
.DEFAULT_GOAL := help

help:
	@echo "make demo        the paper's methods on real data, beside the paper's figures: a few minutes"
	@echo "make test        run the tests"
	@echo "make test-slow   run the tests marked slow"
	@echo "make check       lint, types, tests, coverage: what CI runs"
	@echo "make format      reformat the code"
	@echo "make paper       all of the paper on Bike Sharing at full scale: about an hour"
	@echo "make bench       time the loss and predictions against their peers (own environment)"
	@echo "make bench-training   time stacked training against its peers: about ten minutes"
	@echo "make bench-serving    hold requests to softbins serve: a minute and a half"
	@echo "make bench-jobs DATA=folder   what several jobs bring: about ten minutes"
	@echo "make bench-large FLIGHTS=file   large and wide tables, beside peers: about an hour and a half"
	@echo "make bench-scale how time and memory grow with rows, columns, bins, members, jobs: half an hour"
	@echo "make bench-paper what the paper costs: about fifteen minutes"
	@echo "make bench-accuracy DATA=folder   judge the defaults on tables, beside peers: many hours"
	@echo "make bench-hard   heavy tails and many categories, beside peers: about half an hour"
	@echo "make bench-ablation DATA=folder   what each part of the regressor brings: many hours"
	@echo "make bench-rl    value heads in reinforcement learning: about an hour"
	@echo "make bench-bins DATA=folder   learnt bins and other losses: about fifteen minutes"
	@echo "make bench-onnx  size and time of one row as ONNX: a few minutes"
	@echo "make docs        regenerate the tables, figures and help of README.md and docs/"
	@echo "make site        build the site into build/site, without a warning (own environment)"
	@echo "make dist        build wheel and sdist, check them, run README's examples from the wheel"
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

.venv-site/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-site
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[site]"
	@touch $@

.venv-mlflow/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-mlflow
	.venv-mlflow/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[mlflow]"
	@touch $@

.venv-tensorflow/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-tensorflow
	.venv-tensorflow/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[tensorflow]"
	@touch $@

.venv-dist/ready:
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check build twine
	@touch $@

demo: .venv/ready
	$(BIN)/softbins paper run table curves --scale demo --store build/demo
	$(BIN)/softbins paper table bike --scale demo --store build/demo
	$(BIN)/softbins paper report --scale demo --store build/demo -o build/demo/report.html

paper: .venv/ready
	$(BIN)/softbins paper run --dataset bike --scale paper --store results
	$(MAKE) docs

test: .venv/ready
	$(PYTEST) -m "not slow"

test-slow: .venv/ready .venv-mlflow/ready .venv-tensorflow/ready
	$(PYTEST) -m slow

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint
	$(PYTEST) -m "not slow" --cov --cov-report=term

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv-bench/ready
	.venv-bench/bin/python benchmarks/loss.py
	.venv-bench/bin/python benchmarks/prediction.py
	.venv-bench/bin/python benchmarks/array_libraries.py

bench-training: .venv-bench/ready
	.venv-bench/bin/python benchmarks/training.py

bench-serving: .venv/ready
	$(BIN)/python benchmarks/serving.py

bench-large: .venv-accuracy/ready
	.venv-accuracy/bin/python benchmarks/large.py --flights $(FLIGHTS)

bench-scale: .venv-accuracy/ready
	.venv-accuracy/bin/python benchmarks/scale.py

bench-jobs: .venv/ready
	$(BIN)/python benchmarks/jobs.py $(if $(DATA),--data $(DATA))

bench-paper: .venv/ready
	$(BIN)/python benchmarks/paper.py

bench-accuracy: .venv-accuracy/ready
	.venv-accuracy/bin/python benchmarks/accuracy/run.py --data $(DATA) --set development
	.venv-accuracy/bin/python benchmarks/accuracy/run.py --data $(DATA) --set small
	.venv-accuracy/bin/python benchmarks/accuracy/run.py --data $(DATA) --set heldout
	.venv-accuracy/bin/python benchmarks/accuracy/table.py

bench-hard: .venv-accuracy/ready
	.venv-accuracy/bin/python benchmarks/heavy_tails.py
	.venv-accuracy/bin/python benchmarks/many_categories.py

bench-ablation: .venv/ready
	$(BIN)/python benchmarks/ablation/run.py --data $(DATA)

bench-onnx: .venv/ready
	$(BIN)/python benchmarks/onnx_export.py

bench-bins: .venv/ready
	$(BIN)/python benchmarks/learnt_bins.py $(DATA)

bench-rl: .venv/ready
	$(BIN)/python benchmarks/rl/run.py
	$(BIN)/python benchmarks/rl/summary.py

docs: .venv/ready
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/reproduction.py
	$(BIN)/python docs/commands.py
	$(BIN)/python docs/pictures.py

site: .venv-site/ready
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/python -m mkdocs build --strict --clean
	@echo "open build/site/index.html"

dist: .venv-dist/ready
	rm -rf dist build/wheel
	.venv-dist/bin/python -m build --outdir dist .
	.venv-dist/bin/python -m twine check --strict dist/*
	$(PYTHON) scripts/check_dist.py dist
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && wheel/bin/python ../scripts/run_readme.py

clean:
	rm -rf .venv .venv-bench .venv-accuracy .venv-site .venv-dist .venv-mlflow .venv-tensorflow build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
