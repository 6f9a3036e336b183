# `make up` and `make test` need python3 (3.11 or newer) and nothing else.
# Everything is called by relative path, so the folder's name may hold spaces and any letters.

.DEFAULT_GOAL := help
.PHONY: help up test test-postgres16 lint bench clean environment environment-dev
WORKERS ?= 2
PY := .venv/bin/python

help:
	@echo 'make up      install, start the servers, web and workers; Ctrl-C stops all of it'
	@echo 'make test    install the test extras, check style and types, run every test'
	@echo 'make lint    style and types only'
	@echo 'make bench   speed of ingestion (while `make up` runs)'
	@echo 'make clean   remove the environment and caches; var/ (your data) stays'

up: environment
	@exec $(PY) manage.py up

test: environment-dev lint
	$(PY) -m pytest -n $(WORKERS)

# What touches the database, again on the oldest PostgreSQL that we support.
test-postgres16: environment-dev
	ARCHWAY_POSTGRES_MAJOR=16 $(PY) -m pytest -n $(WORKERS) -m 'database and not slow and not browser and not flow'

lint: environment-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy .

bench: environment
	$(PY) manage.py bench ingest

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis static-collected
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(call install,requirements.txt)

environment-dev:
	@$(call install,requirements-dev.txt)

# Installs a list of packages unless exactly this list was installed by exactly this Python before.
# The note is written last, so an interrupted installation is done again.
define install
set -eu; \
note='.venv/installed-$(1)'; \
if [ -x $(PY) ] && [ "$$(cat "$$note" 2>/dev/null)" = "$$(cksum < $(1))" ]; then exit 0; fi; \
if ! $(PY) -m pip --version >/dev/null 2>&1; then \
  found=''; \
  for python in python3 python3.13 python3.12 python3.11; do \
    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found="$$python"; break; fi; \
  done; \
  if [ -z "$$found" ]; then echo 'Python 3.11 or newer is needed; none was found as python3.' >&2; exit 1; fi; \
  echo "Making .venv with $$("$$found" --version)"; \
  rm -rf .venv; \
  if ! "$$found" -m venv .venv; then \
    rm -rf .venv; echo 'The venv module is missing; on Debian or Ubuntu: apt-get install python3-venv' >&2; exit 1; \
  fi; \
fi; \
echo 'Installing $(1); the first time takes a few minutes'; \
$(PY) -m pip install --quiet --disable-pip-version-check --no-input --root-user-action=ignore -r $(1); \
cksum < $(1) > "$$note"
endef
