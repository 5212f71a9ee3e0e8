# make repro | test | lab: each sets up what it needs. The others: check, verify, why, readme, benchmark ...
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PYTHONPATH := $(CURDIR)/lib

.PHONY: repro test lab check assets setup hooks refresh-notebooks readme benchmark why verify constraints clean

# Everything, or one stage: make repro STAGE=entropy_study@tiny
repro: setup
	@dvc repro $(STAGE)

test: setup check
	@OMP_NUM_THREADS=1 python -m pytest -n 2

# Jupyter refuses root unless told; in a container root is often the only user.
lab: setup
	@jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

# The environment: pyproject.toml says what, constraints.txt says which versions.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "error: Python 3.11 or newer is needed, not %d.%d; try make PYTHON=python3.12" % sys.version_info[:2])'
	@echo "setting up .venv (about two minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	@touch $@

setup: $(READY)
	@dvc repro -q fetch

# Looks at every file again and brings what is missing or damaged, which DVC alone would not see.
assets: $(READY)
	@dvc repro -q -f fetch

check: $(READY)
	@ruff check --quiet .
	@ruff format --quiet --check .

hooks: $(READY)
	@pre-commit install

# The committed notebooks hold the outputs of their own defaults, the tiny profile.
refresh-notebooks: setup
	@for notebook in notebooks/*/*.ipynb; do python -m readout.pipeline.run $$notebook -o $$notebook || exit 1; done

# The README's tables, from the committed records.
readme: $(READY)
	@python -m readout.report.readme

# What a stranger waits for, measured in a fresh clone (about seven minutes).
benchmark: $(READY)
	@python benchmarks/pipeline.py

why: $(READY)
	@python -m readout.pipeline.why

verify: $(READY)
	@python -m readout.sources.fetch verify

# torch is pinned by hand in pins.in; everything else follows from pyproject.toml.
constraints: $(READY)
	@uv pip compile pyproject.toml -c pins.in --all-extras --universal --python-version 3.11 \
	  --no-annotate --no-header --upgrade --quiet -o constraints.txt

clean:
	@rm -rf results figures/tiny figures/scratch
