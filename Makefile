# Each target works on a machine with only Python 3.11+: the stamp files below create the virtual environment once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# In continuous integration a skipped test is a failure: it says which data, browser or cluster is missing.
NO_SKIPS := $(if $(CI),--no-skips)

.PHONY: run test check docs slow mutants paper clean
.DELETE_ON_ERROR:

run: $(STAMP)
	$(BIN)/wflsim run scenarios/quickstart.yaml

test: $(STAMP)-dev
	$(BIN)/python -m pytest -n 2 $(NO_SKIPS)

check: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site in build/docs: the reference from the code, the tutorials executed; a warning is an error.
docs: $(STAMP)-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

slow: $(STAMP)-all
	@command -v chromium >/dev/null || { echo "installing Chromium for the report tests"; \
	  apt-get update -qq && apt-get install -qq -y chromium chromium-driver; } || \
	  { echo "make slow needs Chromium and its driver: install them with your package manager"; exit 1; }
	$(BIN)/python -m pytest -m slow $(NO_SKIPS)
	$(MAKE) docs
	$(if $(wildcard reports/proof/mutants.csv),$(BIN)/python -m studies.mutants --sample --minutes 5)

# Puts errors into the source, one at a time, and counts those that a test notices: reports/proof. Hours; it resumes.
mutants: $(STAMP)-dev
	$(BIN)/python -m studies.mutants

# From the committed results; what trains them is studies/paper/train.py.
paper: $(STAMP)-dev
	$(BIN)/python -m studies.paper.build

$(VENV)/pyvenv.cfg:
	$(PYTHON) -c 'import sys; sys.exit("wflsim needs Python 3.11 or newer; try make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# torch first and alone: its pinned version decides which build of torchvision fits.
$(STAMP): $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(STAMP)-dev: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(STAMP)-docs: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

$(STAMP)-all: $(STAMP)-dev
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist docs/reference docs/tutorials *.egg-info
