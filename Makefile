# Two commands: `make demo` shows what selc does, `make test` checks it. Both set up .venv by themselves.
# `make test-all` is every test there is: `make test`, and what takes long, needs a browser or other people's trainers.
PYTHON ?= python3
TORCH  ?= 2.13.0
PY     := .venv/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check install --quiet
PIP_ADAPTERS := .venv-adapters/bin/python -m pip --disable-pip-version-check install --quiet

# The pins hold for Python 3.11; other versions resolve freely, but never past the torch that is asked for.
PINS := $(shell $(PYTHON) -c 'import sys; print("constraints.txt" if sys.version_info[:2] == (3, 11) else "")')
# Exported, so that it also holds inside pip's build environments.
ifneq ($(PINS),)
export PIP_CONSTRAINT := $(CURDIR)/$(PINS)
endif
# Two torch processes with two threads each on two cores are slower than with one.
export OMP_NUM_THREADS ?= 1
# Compiled files are kept, whatever the shell says: tests start many processes that would all compile anew.
unexport PYTHONDONTWRITEBYTECODE

demo: .venv/demo-ok ; .venv/bin/selc demo --out runs/demo --overwrite
# Side by side: mypy leaves a core idle for half of its time.
test: .venv/ok ; +$(MAKE) --no-print-directory -j2 style quick
quick: .venv/ok ; $(PY) -m pytest -m "not exhaustive and not browser and not adapters"
doctest: .venv/ok ; $(PY) -m pytest -n 0 tests/test_docstrings.py
test-all: test test-adapters .venv/axe/ok ; $(PY) -m pytest -m "exhaustive or browser" && $(PY) tests/run_arithmetic.py --changed
test-adapters: .venv-adapters/ok ; .venv-adapters/bin/python -m pytest -m adapters tests/adapters tests/*/test_label_studio.py
test-arithmetic: .venv/ok ; $(PY) tests/run_arithmetic.py
style: .venv/ok
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy --num-workers 2
check: style
	$(PY) -m pytest -n 0 --noconftest tests/test_layers.py
bench: .venv/ok ; $(PY) benchmarks/overhead.py
# One folder, build/site; index.html is its first page.
docs: .venv/docs-ok
	$(PY) docs/render_methods.py
	$(PY) docs/render_notebooks.py
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet -j auto -c docs -d build/doctrees . build/site
clean: ; rm -rf .venv .venv-adapters build runs .mypy_cache .ruff_cache .pytest_cache

# What checks the pages for people who cannot see or point; without npm these tests are skipped.
.venv/axe/ok: .venv/ok
	@mkdir -p $(@D)
	@npm install --no-audit --no-fund --silent --prefix .venv/axe axe-core@4.10.3 || echo "no npm: pages are not checked by axe-core"
	@touch $@

# `+cpu` first: it takes the CPU build where one is offered and fails at once where none is, instead of
# starting a download of gigabytes; the plain number is the fallback outside CI.
.venv/torch-ok: constraints.txt
	@case "$(CURDIR)" in *" "*) echo "The folder's path must not contain a space (pip splits constraint paths there); got '$(CURDIR)'. Move the checkout."; exit 2;; esac
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python must be 3.11 or newer; got $$($(PYTHON) --version). Run: make PYTHON=python3.11"; exit 2; }
	@echo "Setting up .venv (about a minute the first time) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) "torch==$(TORCH)+cpu" 2>/dev/null || { test -z "$$CI" && $(PIP) "torch==$(TORCH)"; }
	@touch $@
.venv/demo-ok: .venv/torch-ok pyproject.toml
	@$(PIP) -e ".[sklearn,report]"
	@touch $@
.venv/ok: .venv/torch-ok pyproject.toml
	@$(PIP) -e ".[dev]"
	@touch $@ .venv/demo-ok
.venv/docs-ok: .venv/ok
	@$(PIP) -e ".[dev,docs]"
	@touch $@
# Apart from .venv: where torchvision is installed, transformers and lightning may fail to import.
.venv-adapters/ok: constraints.txt pyproject.toml
	@echo "Setting up .venv-adapters (some minutes the first time) ..."
	@$(PYTHON) -m venv .venv-adapters
	@$(PIP_ADAPTERS) "torch==$(TORCH)+cpu" 2>/dev/null || { test -z "$$CI" && $(PIP_ADAPTERS) "torch==$(TORCH)"; }
	@$(PIP_ADAPTERS) -e ".[transformers,lightning,track,report]" datasets skorch label-studio-sdk cleanlab \
	  sqlalchemy alembic sqlparse pytest pytest-xdist pytest-timeout
	@touch $@
.PHONY: demo test quick style doctest test-all test-adapters test-arithmetic check bench docs clean
