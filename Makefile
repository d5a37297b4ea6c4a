# Every target sets up .venv by itself: Python 3.11 or newer with venv is all it needs.
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null \
	&& { echo $$p; break; }; done)
BIN := .venv/bin

.PHONY: demo up test properties lint format types bench lock clean

demo: .venv/ready
	@$(BIN)/sluice demo

up: .venv/ready
	@$(BIN)/sluice up

test: .venv/ready
	@$(BIN)/pytest tests

# The long form: 200 histories of 30 steps in memory, 50 of 20 on the engines; three minutes.
properties: .venv/ready
	@SLUICE_TEST_THOROUGH=1 $(BIN)/pytest tests/properties

lint: .venv/ready
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/mypy

format: .venv/ready
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: .venv/ready
	@$(BIN)/python -m benchmarks change --docs 2000 --json
	@$(BIN)/python -m benchmarks change --docs 10000 --json

# The lock names exact versions and hashes, and no host.
lock: .venv/ready
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --no-annotate --extra demo --extra dev \
		pyproject.toml build.in --output-file requirements.lock

clean:
	rm -rf .venv .demo build *.egg-info

.venv/ready: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Sluice needs Python 3.11 to 3.14: install one, for example with 'apt-get install python3 python3-venv'." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) has no venv module: install it, for example with 'apt-get install python3-venv'." >&2; exit 2; }
	@echo "Setting up .venv with $(PYTHON) (once, about a minute) …"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
