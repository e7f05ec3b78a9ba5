# The interface of this project. `make` alone lists the targets; each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
KERNELS := $(wildcard src/moldau/*/*.pxd src/moldau/*/*/*.pxd)

.DEFAULT_GOAL := help
.PHONY: help run demo quick test test-long sim sanitize compat bench check docs docs-site docs-serve dist dist-test clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moldau needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml setup.py $(KERNELS) $(KERNELS:.pxd=.py) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[console]'
	@$(BIN)/python -m compileall -q src/moldau
	@touch $@

$(DEV): pyproject.toml setup.py $(KERNELS) $(KERNELS:.pxd=.py) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m compileall -q src/moldau
	@touch $(CORE) $@

run: $(CORE) ## start a broker on 127.0.0.1:9092, data in ./data, and its console
	@exec $(BIN)/moldau server-start --console config/server.properties

demo: $(DEV) ## a broker and two word counts on Spark, live; ends by itself (needs java)
	@$(BIN)/python examples/pipelines/demo.py

quick: $(DEV) ## the tests of machines, files and messages: under a minute, no Java, no broker
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --max-worker-restart=0 -m 'not compat and not long' tests/test_architecture.py \
		tests/unit tests/scenarios tests/protocol --ignore=tests/unit/metadata/test_metadata_contract.py

test: $(DEV) ## the whole test-suite except what needs Node, Go or Maven
	$(BIN)/python -m pytest -n 3 --dist loadfile --max-worker-restart=0 -m 'not compat and not long' --ignore=tests/pipelines
	$(BIN)/python -m pytest -m 'not compat and not long' tests/pipelines

test-long: $(DEV) ## randomized tests in their long mode
	$(BIN)/python -m pytest -m long

sim: $(DEV) ## three brokers on a virtual clock under faults: SEEDS=n many, SEED=x one again
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),100))

sanitize: $(DEV) ## the compiled kernels under AddressSanitizer (needs gcc)
	rm -rf build/sanitized
	MOLDAU_SANITIZE=1 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/sanitized .
	LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=build/sanitized \
		$(BIN)/python -m pytest -q -m 'not compat and not long' tests/unit/records tests/property

compat: $(DEV) ## foreign clients: Python, Node, Go, Java (needs node, go, mvn)
	$(BIN)/python -m pytest tests/compat

bench: $(DEV) ## Moldau beside Apache Kafka on this machine, as ratios (needs mvn, java)
	$(BIN)/python -m benchmarks

check: $(DEV) ## formatting, lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@if $(BIN)/pyright --version > /dev/null 2>&1; then $(BIN)/pyright --pythonpath $(BIN)/python; \
	else echo "pyright is left out: it needs Node, and fetches itself on its first run"; fi

docs: $(DEV) ## write what is generated: reference pages, pictures, the blocking Admin
	$(BIN)/python -m docs.generate

docs-site: $(DEV) ## the pages as a site, in build/site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m docs.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file build/mkdocs.yml

docs-serve: docs-site ## the same at http://127.0.0.1:8000/
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

dist: $(DEV) ## the packages that are published, in dist: a wheel and the sdist
	rm -rf dist build/lib* build/bdist*
	$(BIN)/python -m build --outdir dist .

dist-test: dist ## the packages in new environments, as a newcomer meets them: PYTHONS="python3.12 python3.13"
	$(BIN)/python tests/wheel/in_clean_environments.py dist $(foreach each,$(PYTHONS),--python $(each))

clean: ## remove what the build made (not ./data)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache src/*.egg-info $(VENV)
	find src tests -name '*.so' -delete
