# Everything a contributor runs. `make help` lists it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run test lint format types unit frontend docs screenshots clean

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,postgres]'
	touch $(STAMP)

setup: $(STAMP) ## create .venv with everything the project needs

run: $(STAMP) ## a worker, schedules, sample jobs of every state and the admin pages, on SQLite
	$(BIN)/sloppyjobs --database sqlite:///var/demo.db demo --serve

test: lint types unit ## everything that must pass: lint, types, layers, tests

lint: $(STAMP) ## ruff and the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

unit: $(STAMP) ## the tests, on SQLite and on a real PostgreSQL
	sh tests/web/ensure_browser.sh
	$(BIN)/pytest -n 2

frontend: ## htmx for the pages and axe for their tests, from npm
	npm ci --ignore-scripts --no-audit --no-fund
	mkdir -p static/vendor
	cp node_modules/htmx.org/dist/htmx.min.js node_modules/htmx.org/dist/ext/hx-ptag.min.js static/vendor/

docs: $(STAMP) ## this project's documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: $(STAMP) ## pictures of the pages for docs/screenshots
	sh tests/web/ensure_browser.sh
	$(BIN)/python tests/web/screenshots.py docs/screenshots

clean: ## remove what the other commands made
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis site var
