# Needs Python 3.11 or newer and make, nothing else.
#
#   make demo       create .venv, install, release one week of the example flights, verify it
#   make demo-year  release 52 weeks of the flights, as a scheduler would, and their index page
#   make test       create .venv, install what the tests need, run every check
#   make test LOCKED=1   the same with exactly the versions of requirements.lock
#   make lowest     the oldest allowed versions: the same plan hashes, exact answers and doors
#   make test-fast  a selection of the tests, two minutes: what a change breaks first
#   make lint       the static checks alone
#   make size      how the library is built: figures, limits, targets; code lines of each room
#   make docs       build the documentation site: build/site
#   make bench      time a release of 1, 10 and 100 million rows beside other libraries
#   make peers      what other libraries do with declared ranges and with a spent budget
#   make field      are the defaults good on 2,000 ordinary requests? At most an hour on two cores; goes on where it stopped
#   make evidence   faults, crashes, leaks, audits; writes benchmarks/results/evidence.md
#   make nightly    the same at full sizes: hours
#   make lock       pin every dependency by its hashes: requirements.lock
#   make dist       the wheel and the source archive: dist
#   make sbom       what is in that lock, as CycloneDX JSON: build/sbom.json
#   make clean      remove .venv and caches; the ledger and the published folders stay

VENV     ?= .venv
BIN      := $(VENV)/bin
PIPELINE := pipelines/flights_weekly.yaml
PERIOD   := 2013-W05
LEDGER   := .dprelease/ledger.db
WEEK     := public/flights_weekly/$(PERIOD)
PIP      := $(BIN)/python -m pip install --disable-pip-version-check

# The first interpreter that is new enough; `make PYTHON=... demo` names another.
PYTHON   ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& echo $$p && break; done)

YEAR     := pipelines/flights_year.yaml

# The tests of the Spark engine need Java; without one they are skipped, and 420 MB are not fetched.
SPARK    := $(shell command -v java >/dev/null 2>&1 && echo ,spark)

# No Spark, browser, server or whole job: see tests/README.md.
FAST := tests/meta tests/schema tests/query tests/statistics tests/benchmarks/test_best_forms.py tests/mechanisms tests/measurements tests/release_plan tests/allocation tests/planning tests/budget tests/results/formats \
	tests/results/series $(wildcard tests/test_*.py)

# These take half of the time of those folders: they use a server, a browser, copies of the tree, many whole plans, quadrature.
SLOW := tests/budget/test_postgres.py tests/budget/test_postgres_outage.py tests/meta/test_add_a_kind.py \
	tests/query/test_wide_view.py tests/planning/test_table_goals.py tests/planning/test_natural.py \
	tests/mechanisms/calibration tests/mechanisms/certifiers tests/mechanisms/test_law.py tests/mechanisms/test_bounded_laplace.py \
	tests/mechanisms/test_bounded_gaussian.py tests/query/test_expression.py tests/statistics/test_tree_fit.py tests/statistics/test_pair_pivot.py \
	tests/results/test_fitted.py tests/results/test_fitted_detail.py tests/results/test_fitted_ratios.py tests/budget/test_loss_lattice.py tests/inspection/test_rows.py \
	tests/schema/importers tests/planning/test_linear_work.py tests/query/test_cleaning.py tests/test_during.py tests/budget/test_timed_ledger.py \
	tests/budget/test_moving.py tests/planning/test_joint_quantiles.py tests/planning/test_what_if.py tests/measurements/test_informative.py \
	tests/statistics/test_certified_eigen.py tests/mechanisms/test_rectified_gaussian.py \
	tests/meta/test_distribution.py tests/planning/test_recursive_quantiles.py tests/measurements/test_winsorised.py \
	tests/results/formats/test_html_browser.py tests/results/formats/test_keyboard.py tests/meta/test_types.py tests/schema/test_domain.py \
	tests/measurements/test_ranks.py tests/measurements/test_of_scalar.py tests/measurements/test_centred_squares.py \
	tests/mechanisms/kernels/test_noise.py tests/mechanisms/forms/test_recursive_scores.py tests/mechanisms/boundaries/test_remap.py

# Python keeps its compiled files, whatever the shell's environment says. Otherwise each of the hundred or so
# short processes of the tests would compile the library again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-year test lowest test-fast size lint docs bench peers field lock dist sbom clean evidence nightly
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	@echo; echo "== 1/4  the ledger: one durable budget for the flights (made once)"
	$(BIN)/dprelease ledger init $(PIPELINE)
	@echo; echo "== 2/4  one week: plan, charge, draw, validate, publish"
	$(BIN)/dprelease run $(PIPELINE) --period $(PERIOD)
	@echo; echo "== 3/4  verify the published folder; no data is needed for this"
	$(BIN)/dprelease verify $(WEEK) --ledger $(LEDGER)
	@echo; echo "== 4/4  what is spent, what is left"
	$(BIN)/dprelease ledger show $(PIPELINE)
	@echo; echo "open  $(WEEK)/report.html"
	@echo "again: the same week costs nothing; another does: $(BIN)/dprelease run $(PIPELINE) --period 2013-W06"

demo-year: $(VENV)/.installed
	@echo; echo "== 1/4  a ledger with a budget for 52 weeks"
	$(BIN)/dprelease ledger init $(YEAR)
	@echo; echo "== 2/4  the scheduler, as if it were New Year 2014: every week of 2013, oldest first"
	$(BIN)/dprelease schedule $(YEAR) --once --at 2014-01-01T12:00:00Z
	@echo; echo "== 3/4  verify one of them"
	$(BIN)/dprelease verify public/flights_year/2013-W27 --ledger .dprelease/year.db
	@echo; echo "== 4/4  what one aircraft has lost of one week, and over everything"
	$(BIN)/dprelease ledger show $(YEAR)
	@echo; echo "open  public/flights_year/index.html"

# Three for two cores: a test that waits for Java, a server or a browser leaves its core to another.
WORKERS  ?= 3

# The static checks need one core: they run beside the first tests, and their output comes last.
# make has another name here, because `make -n` would run every line that contains $(MAKE).
AGAIN    := $(MAKE)

test: $(VENV)/.installed-test
	@mkdir -p build; $(AGAIN) -s lint > build/lint.txt 2>&1 & checks=$$!; \
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal; tested=$$?; \
	wait $$checks; linted=$$?; cat build/lint.txt; exit $$((tested | linted))

test-fast: $(VENV)/.installed-test
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not statistical" \
		$(addprefix --ignore=,$(SLOW)) $(FAST)

# Without Spark, whose oldest allowed version is 400 MB for one more door.
lowest: $(VENV)/.installed-test
	$(PIP) -q uv
	$(BIN)/uv venv -q --clear --python $(BIN)/python .bench/lowest
	$(BIN)/uv pip install -q --python .bench/lowest/bin/python --resolution lowest-direct \
		-e '.[postgres,signing]' 'pytest>=8.3' 'hypothesis>=6.120' 'mpmath>=1.3' 'polars>=1.20'
	$(BIN)/python -m tests.lowest .bench/lowest/bin/python

size: $(VENV)/.installed-test
	@$(BIN)/python -m tests.meta.house

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -q
	@echo "open  build/site/index.html"

evidence: $(VENV)/.installed-test
	$(BIN)/python -m tests.evidence

nightly: $(VENV)/.installed-test
	DPRELEASE_NIGHTLY=1 $(BIN)/python -m tests.evidence

lock: $(VENV)/.installed-supply
	$(BIN)/uv pip compile pyproject.toml $(foreach e,postgres signing spark test docs,--extra $(e)) \
		--universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" -q -o requirements.lock

dist: $(VENV)/.installed-supply
	$(BIN)/python -m hatchling build -d dist

sbom: $(VENV)/.installed-supply
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --of JSON -o build/sbom.json

# Each peer has an environment of its own. The largest size needs 1 GB of disk and most of an hour.
ROWS     ?= 1000000 10000000 100000000

bench: $(VENV)/.installed
	$(PIP) -q uv
	$(BIN)/uv venv -q --allow-existing .bench/peers
	$(BIN)/uv pip install -q --python .bench/peers/bin/python -r benchmarks/requirements-speed.txt
	$(BIN)/uv venv -q --allow-existing .bench/smartnoise
	$(BIN)/uv pip install -q --python .bench/smartnoise/bin/python \
		--override benchmarks/overrides-smartnoise.txt -r benchmarks/requirements-smartnoise.txt
	$(BIN)/python benchmarks/speed.py --rows $(ROWS) \
		--peers .bench/peers/bin/python --smartnoise .bench/smartnoise/bin/python
	@echo "open  benchmarks/results/speed.md"

peers: $(VENV)/.installed
	$(PIP) -q uv
	$(foreach e,peers smartnoise tumult google accounting,$(BIN)/uv venv -q --allow-existing .bench/$(e) && ) true
	$(BIN)/uv pip install -q --python .bench/accounting/bin/python "dp-accounting>=0.6,<1"
	$(BIN)/uv pip install -q --python .bench/peers/bin/python -r benchmarks/requirements-speed.txt
	$(BIN)/uv pip install -q --python .bench/smartnoise/bin/python \
		--override benchmarks/overrides-smartnoise.txt -r benchmarks/requirements-smartnoise.txt
	$(BIN)/uv pip install -q --python .bench/tumult/bin/python -r benchmarks/requirements-tumult.txt
	$(BIN)/uv pip install -q --python .bench/google/bin/python -r benchmarks/requirements-google.txt
	$(BIN)/python benchmarks/peers.py \
		$(foreach e,peers smartnoise tumult google,--$(e) .bench/$(e)/bin/python)
	$(BIN)/python benchmarks/baselines.py --peers .bench/peers/bin/python
	$(BIN)/python benchmarks/normal_noise.py --accounting .bench/accounting/bin/python
	$(BIN)/python benchmarks/keys.py $(foreach e,peers smartnoise google,--$(e) .bench/$(e)/bin/python)

# FIELD="--requests 200" or "--minutes 10" runs a part. The real tables come with packages, in an environment of their own.
FIELD    ?=

field: $(VENV)/.installed
	$(PIP) -q uv
	$(BIN)/uv venv -q --allow-existing .bench/field
	$(BIN)/uv pip install -q --python .bench/field/bin/python -r benchmarks/requirements-field.txt
	.bench/field/bin/python benchmarks/field_tables.py
	$(foreach e,peers google,$(BIN)/uv venv -q --allow-existing .bench/$(e) && ) true
	$(BIN)/uv pip install -q --python .bench/peers/bin/python -r benchmarks/requirements-speed.txt
	$(BIN)/uv pip install -q --python .bench/google/bin/python -r benchmarks/requirements-google.txt
	$(BIN)/python benchmarks/field.py --peers .bench/peers/bin/python --google .bench/google/bin/python $(FIELD)
	@echo "open  benchmarks/results/field.md"

clean:
	rm -rf $(VENV) .bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# Editable, so that a change in the sources needs no second installation.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(if $(LOCKED),$(PIP) --require-hashes -r requirements.lock && \
		$(PIP) --no-deps --no-build-isolation .,$(PIP) -e '.[test$(SPARK)]')
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-supply: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[supply]'
	@touch $@ $(VENV)/.installed

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer on the PATH"; \
		echo "  fix    install one, or name it: make PYTHON=/path/to/python3.12 demo"; exit 2; }
	$(PYTHON) -m venv $(VENV)
