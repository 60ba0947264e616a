# make demo  - set up, then run the example plain and under `codedag run`, and compare every batch
# make test  - set up, then lint and test
# make test-tensorflow - what concerns TensorFlow, in an environment of its own
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
SEED := $(or $(SEED),$(shell date +%j%H%M))

.PHONY: setup demo test test-full test-tensorflow lint format bench bench-peers bench-stages bench-truth bench-tune screenshots docs wheel schemas clean

setup: $(STAMP)

$(STAMP): constraints.txt pyproject.toml setup.py $(wildcard src/codedag/*/*.[ch])
	@scripts/system_packages.sh
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt setuptools wheel
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[all,dev]'
	$(BIN)/python -m compileall -q src  # where PYTHONDONTWRITEBYTECODE is set, every start would compile all of it
	@touch $@

demo: setup
	$(BIN)/python -m codedag demo --folder data/demo -o build/demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Everything short, and a slice of what is slow or long chosen by a seed that is printed (repeat with SEED=...).
# In two parts: what looks through all objects of a process is slow where every library has been loaded.
# Which tests share a process differs from run to run: what fails there is shown, and decides if it fails alone as well.
PARTS := "tests/unit tests/contract" "tests/property tests/backend tests/loopback tests/integration"
PYTEST = $(BIN)/python -m pytest --seed $(SEED) $(FULL)
ALONE = --last-failed --last-failed-no-failures none

test: lint
	@for part in $(PARTS); do \
	  echo "$(PYTEST) -n 2 $$part"; \
	  $(PYTEST) -n 2 $$part || { echo "What failed above, alone in a process:"; $(PYTEST) $(ALONE) $$part; } || exit 1; \
	done
	$(BIN)/python scripts/interpreters.py --seed $(SEED) $(FULL)

test-full:
	@$(MAKE) --no-print-directory test FULL=--full SEED=$(SEED)

# TensorFlow in an environment of its own, two gigabytes: its pins need not fit those of constraints.txt.
TENSORFLOW := .venv-tensorflow/bin/python
TENSORFLOW_TESTS := tests/integration/test_tensorflow.py tests/contract/test_guides.py tests/integration/test_compare.py \
  tests/integration/test_experiment.py tests/integration/test_examples.py

test-tensorflow: .venv-tensorflow/.ready
	$(TENSORFLOW) -m pytest -q --full -k "tensorflow or tf_data or tfdata" $(TENSORFLOW_TESTS)

.venv-tensorflow/.ready: constraints-tensorflow.txt setup.py $(wildcard src/codedag/*/*.[ch])
	test -x $(TENSORFLOW) || $(PYTHON) -m venv .venv-tensorflow
	$(TENSORFLOW) -m pip install --quiet --disable-pip-version-check -r constraints-tensorflow.txt
	$(TENSORFLOW) -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

bench: setup
	$(BIN)/python bench/run.py
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/scripts.py
	$(BIN)/python bench/table_kernels.py
	$(BIN)/python bench/substitutions.py
	$(BIN)/python bench/tracing.py
	$(BIN)/python bench/packages.py
	$(BIN)/python bench/profile.py
	$(BIN)/python bench/planner.py
	$(BIN)/python bench/report.py

# Whole processes as written and under `codedag run`: wall, CPU, memory, results and claims, over an hour a round.
# PUBLIC=DIR adds the public programs whose checkouts are there, PUBLIC_PYTHON is their interpreter.
bench-truth: setup
	$(BIN)/python bench/truth.py $(if $(PUBLIC),--public $(PUBLIC) --python $(or $(PUBLIC_PYTHON),$(BIN)/python))

# The kernel tuner: kernels against numpy, products against the peak, searches on measured tables.
bench-tune: setup
	$(BIN)/python bench/tune.py
	$(BIN)/python bench/tune_run.py

# every page of the report in both themes, to be looked at
screenshots: setup
	CODEDAG_SCREENSHOTS=build/screenshots $(BIN)/python -m pytest -q tests/integration/test_report_page.py -k every_page

# Other input pipelines on the same work, in an environment of their own (several gigabytes).
bench-peers: setup
	$(BIN)/python bench/peers.py --setup
	$(BIN)/python bench/peers.py

# Staged models: how long profiles take and how far they hold, what plans bring, a graph of Flickr's size.
bench-stages: setup
	$(BIN)/python bench/stages.py
	$(BIN)/python bench/stages_graph.py

# The site of docs/: open build/site/index.html, or serve it, which its search needs (python -m http.server -d build/site)
docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[docs]'
	$(BIN)/python scripts/write_reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# A wheel for each Python of these that is here, in dist/.
WHEEL_PYTHONS ?= python3.11 python3.12 python3.13
wheel:
	@for python in $(WHEEL_PYTHONS); do \
	  $$python -c "" 2>/dev/null || { echo "$$python is not here: no wheel for it"; continue; }; \
	  $$python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist . || exit 1; \
	done; ls dist/*.whl

schemas: setup
	$(BIN)/python scripts/write_schemas.py

clean:
	rm -rf .venv .venv-3.* .venv-tensorflow build dist src/*.egg-info
