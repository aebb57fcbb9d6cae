# Two commands set everything up, on a machine without a GPU and without root:
#   make demo   installs into .venv, runs the main job, writes report.html
#   make test   installs into .venv, runs the whole suite
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# A pinned OpenBLAS core type or cache size hides what NumPy can do on this CPU.
BENCH_ENV := env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE

.PHONY: demo test lint clean

demo: $(VENV)/.demo
	$(BENCH_ENV) $(BIN)/python -m bench.demo

test: $(VENV)/.demo $(VENV)/.test
	$(BIN)/python -m tests.needs
	$(BIN)/python -m pytest -q -n 2 --dist loadfile $(PYTEST_ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt install python3-venv"; exit 1; }

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing portable with torch, jax and an OpenCL CPU runtime into $(VENV) (minutes)"
	$(PIP) torch
	$(PIP) --editable '.[cpu]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	$(PIP) --editable '.[cpu,triton,test,dev]'
	touch $@

clean:
	rm -rf $(VENV) report.html records.jsonl
