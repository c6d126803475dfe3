# One command per job, the same here and in CI. Everything goes into .venv; nothing else is touched.
# Needs python3 (3.10 or newer), a C++20 compiler and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
NPM = PYTHON="$(CURDIR)/$(BIN)/python" web/npm
STAMPS := $(VENV)/stamps
HAS_TORCH := import sys; from importlib.util import find_spec; sys.exit(find_spec("torch") is None)
PACKAGES := import sysconfig; print(sysconfig.get_path("purelib"))
ASAN := build/torture-asan
COUNTED := build/counted

# A change to one of these means that the compiled core has to be built again. Python files are used
# from src/ as they are (an editable install), so editing them needs nothing, but for the schema: C++ is
# made from it.
NATIVE := $(shell find native -name '*.cpp' -o -name '*.c' -o -name '*.h' | sort)
SCHEMA := native/schema/generate_schema.py native/schema/schema.cmake $(addprefix src/opscope/columns/,causes.py codes.py column.py \
  device_schema.py schema.py)
COMPILED_FROM := pyproject.toml CMakeLists.txt $(NATIVE) $(SCHEMA)
PYTHON_CODE := $(wildcard src tests examples benchmarks release) native/schema

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo images test size lint typecheck format format-check bench native-test gpu-test \
  gpu-check torture damage deaths field interpreter-test matrix web-test report-page browser release \
  coverage docs clean

help: ## List these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

install: $(STAMPS)/dependencies $(STAMPS)/opscope ## Set up .venv with everything that development needs

# What runs the program is fetched while the core compiles: neither needs the other.
demo: ## Profile the training of a small network, and show where its time went
	@$(MAKE) --no-print-directory -j2 $(STAMPS)/opscope $(STAMPS)/running
	@rm -rf demo-out
	@echo "Training a small network under opscope: examples/train_digits.py"
	@$(BIN)/opscope run --schedule 4,1,12,1 --shapes --modules --memory --stack --table \
	  --output demo-out/train_digits.opscope --chrome demo-out/train_digits.json \
	  --report demo-out/train_digits.html examples/train_digits.py
	@echo "Now try: $(BIN)/opscope summary demo-out/train_digits.opscope"
	@echo "or open demo-out/train_digits.html in a browser."

images: demo browser ## Make the pictures of the README from what the demo wrote
	$(BIN)/python docs/images/make_images.py demo-out

test: install ## Run the tests
	$(BIN)/python tests/run.py $(PYTEST_ARGUMENTS)

size: install ## Lines of code by room and names by kind, beside their limits; ACCEPT=1 makes these the limits
	@cd tests && ../$(BIN)/python -m size $(if $(ACCEPT),--accept)

lint: install ## Look for mistakes in the Python code
	$(BIN)/ruff check $(PYTHON_CODE)

typecheck: install ## Check the types
	$(BIN)/mypy

format: install ## Format all code
	$(BIN)/ruff format $(PYTHON_CODE)
	$(BIN)/ruff check --select I --fix $(PYTHON_CODE)
	$(BIN)/clang-format -i $(NATIVE)

format-check: install ## Is all code formatted?
	$(BIN)/ruff format --check $(PYTHON_CODE)
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)

bench: install ## Measure opscope against torch.profiler, side by side
	$(BIN)/python -m benchmarks

native-test: $(STAMPS)/dependencies ## Test the native core under the address and thread sanitizers
	@export PATH="$(CURDIR)/$(BIN):$$PATH" && \
	cmake -S native/tests -B build/native -G Ninja && cmake --build build/native && \
	ctest --test-dir build/native --output-on-failure --parallel "$$(nproc)"

# VARIANT: plain; debug and dev, with checks of the allocators; asan, with core and bridge built for it.
torture: install $(if $(filter asan,$(VARIANT)),$(ASAN)/built) ## Random programs, recorded and compared: SECONDS=60 SEED= COUNT= VARIANT= WITHOUT=
	@cd tests && ../$(BIN)/python -m torture $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(COUNT),--count $(COUNT)) $(if $(VARIANT),--variant $(VARIANT)) $(if $(WITHOUT),--without "$(WITHOUT)")

# An environment beside .venv that has all its packages but opscope, which is built anew.
$(ASAN)/built: $(STAMPS)/dependencies $(COMPILED_FROM) $(shell find src -name '*.py')
	rm -rf $(ASAN)
	$(BIN)/python -m venv --without-pip $(ASAN)
	packages=$$($(ASAN)/bin/python -c 'import site; print(site.getsitepackages()[0])') && \
	$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' > $$packages/beside.pth && \
	CXXFLAGS="-fsanitize=address -fno-omit-frame-pointer -g" $(BIN)/python -m pip install --quiet \
	  --no-build-isolation --no-deps --target $$packages --config-settings=install.strip=false \
	  --config-settings=build-dir=$(ASAN)/core .
	@touch $@

damage: install ## Files of recordings, damaged at random, each read or refused: COUNT=100000 SEED=
	@cd tests && ../$(BIN)/python -m torture.left_files $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

deaths: install ## Programs that die while they are recorded, compared with what they counted: COUNT=1000 SEED=
	@cd tests && ../$(BIN)/python -m deaths $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

field: install ## Tests and programs of real libraries, plain and recorded, compared: LIBRARIES="einops pyro"
	@cd tests && ../$(BIN)/python -m field $(LIBRARIES)

interpreter-test: ## Install as users do, and test the recorder of Python calls, on every Python from 3.10 to 3.15 that can be had: INTERPRETERS="3.10"
	@tests/interpreters/run.sh $(INTERPRETERS)

matrix: install ## Test on every torch and Python that can be had, or ROW="torch-2.6 python-3.13"; CLOSEST=1, FAILED=1, TESTS= for less
	cd tests && ../$(BIN)/python -m matrix $(if $(CLOSEST),--closest) $(if $(FAILED),--failed) $(ROW) $(if $(TESTS),-- $(TESTS))

gpu-test: install ## Compare what is recorded of a GPU with torch.profiler's; needs an NVIDIA GPU
	$(BIN)/python -m pytest tests/gpu

# With nanobind, scikit-build-core, CMake, pyarrow, rich and pytest besides torch, that python3 needs
# no network.
gpu-check: ## The same and benchmarks/gpu.py, with the torch and packages of $(PYTHON); downloads nothing
	@tests/gpu/check.sh "$(PYTHON)"

web-test: $(STAMPS)/venv ## Test the program inside the HTML report, and that the package has its newest build
	$(NPM) ci --no-audit --no-fund
	$(NPM) run check
	$(NPM) run format-check
	$(NPM) test
	rm -rf build/report-bundle
	$(NPM) run build -- --outDir ../build/report-bundle
	diff -r build/report-bundle src/opscope/report/bundle || { \
	  echo "The report's bundle is not what web/ builds. Run: make report-page" >&2; exit 1; }

report-page: $(STAMPS)/venv ## Build that program into the package, after any change in web/
	$(NPM) ci --no-audit --no-fund
	$(NPM) run build

browser: ## Install the Chromium that the report's tests open it in, where that is possible
	@if command -v chromium google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { timeout 120 apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
	    timeout 240 apt-get -qq install --no-install-recommends chromium >/dev/null; } || \
	    echo "Chromium could not be installed: the tests in a browser will be skipped." >&2; \
	else echo "No Chromium here: the tests in a browser will be skipped." >&2; fi

release: install ## Build, check and try all that is released, into dist/: RELEASE="--python python3.12"
	$(BIN)/python -m release $(RELEASE)

# Both are counted by the same run, in an environment like that of the address sanitizer, which has what makes
# every Python that tests start count, and the command. Processes that are killed do not say what native lines they
# ran.
coverage: install $(COUNTED)/built ## Which lines and branches the tests run, in Python and C++: TESTS=tests/unit
	rm -rf build/coverage && mkdir -p build/coverage
	find $(COUNTED)/core -name '*.gcda' -delete
	-$(COUNTED)/bin/python -m coverage run tests/run.py -p no:cacheprovider $(TESTS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage html --quiet --directory build/coverage/python
	$(BIN)/python -m coverage report | tail -n 5
	$(BIN)/python -m gcovr --root . --filter native/ --gcov-ignore-errors=all --gcov-ignore-parse-errors=all \
	  --print-summary --output build/coverage/native.txt $(COUNTED)/core

$(COUNTED)/built: $(STAMPS)/dependencies $(COMPILED_FROM) $(shell find src -name '*.py')
	rm -rf $(COUNTED)
	$(BIN)/python -m venv --without-pip $(COUNTED)
	packages=$$($(COUNTED)/bin/python -c 'import site; print(site.getsitepackages()[0])') && \
	beside=$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])') && \
	echo $$beside > $$packages/beside.pth && cp $$beside/a1_coverage.pth $$packages && \
	CFLAGS=--coverage CXXFLAGS=--coverage $(BIN)/python -m pip install --quiet \
	  --no-build-isolation --no-deps --target $$packages --config-settings=install.strip=false \
	  --config-settings=build-dir=$(COUNTED)/core . && \
	sed "1s,.*,#!$(CURDIR)/$(COUNTED)/bin/python," $$packages/bin/opscope > $(COUNTED)/bin/opscope && \
	chmod +x $(COUNTED)/bin/opscope
	@touch $@

docs: install ## Build the documentation site into build/docs; warnings are errors
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements/docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

clean: ## Remove everything that these commands made
	rm -rf $(VENV) build dist demo-out web/node_modules web/.node .mypy_cache .ruff_cache .pytest_cache .hypothesis

# A torch that this Python already has is used; otherwise the pinned one is installed. Python's own switch
# for that does not reach the packages of an environment that $(PYTHON) itself is in. Whether it can be imported,
# which takes long, is seen when the rest is installed.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "opscope needs Python 3.10 or newer; $(PYTHON) is older. Try: make PYTHON=python3.11" >&2; \
	  exit 1; }
	@if $(PYTHON) -c '$(HAS_TORCH)'; then shared=--system-site-packages; fi; \
	$(PYTHON) -m venv --clear $$shared $(VENV) || { \
	  echo "No virtual environment could be made. On Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; }; \
	if [ -n "$$shared" ] && $(PYTHON) -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)'; then \
	  $(PYTHON) -c '$(PACKAGES)' > "$$($(BIN)/python -c '$(PACKAGES)')/beside.pth"; fi
	@mkdir -p $(STAMPS) && touch $@

# NVIDIA's headers of some CUDA releases, for tests alone; without them those are skipped.
$(STAMPS)/cupti: $(STAMPS)/venv requirements/cupti-11.8.txt requirements/cupti-12.8.txt requirements/cupti-13.txt
	@for release in 11.8 12.8 13; do \
	  $(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/cupti/$$release \
	    --requirement requirements/cupti-$$release.txt || { \
	    echo "no CUPTI headers of CUDA $$release could be had: tests that need them are skipped" >&2; }; \
	done
	@touch $@

# What compiling and running take, without bytecode: Python makes that of what is imported, and of all it takes as
# long as the rest. pip speaks when it fails (-qq: not of indexes that it could not look into).
$(STAMPS)/building: $(STAMPS)/venv requirements/build.txt
	@$(PIP) install -qq --no-compile --requirement requirements/build.txt
	@touch $@

$(STAMPS)/running: $(STAMPS)/building requirements/run.txt requirements/torch.txt
	@echo "Installing what opscope runs with into $(VENV) ..."
	@$(PIP) install -qq --no-compile --requirement requirements/run.txt
	@$(BIN)/python -c 'import torch' 2>/dev/null \
	  || { echo "Installing torch 2.13.0, which this Python does not have: some 200 MB ..."; \
	  $(PIP) install -qq torch==2.13.0 --constraint requirements/torch.txt || { \
	  echo "torch 2.13.0 has no build for this Python and platform that pip can find. Install one you" >&2; \
	  echo "can get (2.6 or newer) with $(BIN)/pip install torch==VERSION, then run make again." >&2; \
	  exit 1; }; }
	@touch $@

$(STAMPS)/dependencies: $(STAMPS)/running $(STAMPS)/cupti requirements/dev.txt requirements/readers.txt \
  requirements/clients.txt requirements/job.txt requirements/agents.txt
	@echo "Installing what tests and checks take ..."
	@$(PIP) install -qq --requirement requirements/dev.txt
	@$(PIP) install -qq --no-deps --requirement requirements/readers.txt \
	  --requirement requirements/clients.txt --requirement requirements/job.txt --requirement requirements/agents.txt
	@touch $@

# scikit-build-core's module is imported by every Python there; pytest would warn of that, as it rewrites the modules
# of what has a plugin.
$(STAMPS)/opscope: $(STAMPS)/building $(COMPILED_FROM)
	@echo "Compiling opscope's native core ..."
	@$(PIP) install -qq --no-build-isolation --no-deps --editable .
	@sed -i '1i"""PYTEST_DONT_REWRITE"""' "$$($(BIN)/python -c '$(PACKAGES)')/_editable_skbc_opscope.py"
	@touch $@
