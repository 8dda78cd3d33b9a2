# Every target sets up what it needs; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
-include .env
ifneq ($(SPIDER2_SHARED),)
export SPIDER2_SHARED
endif
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv

COMPILE := uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --python-version 3.11

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.complete: requirements.lock stacks/bootstrap.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 setup" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || \
	  { echo "the venv module is missing (on Debian: apt install python3-venv)" >&2; exit 1; }
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r stacks/bootstrap.lock
	@.venv/bin/uv pip sync --quiet --require-hashes --python .venv requirements.lock
	@touch $@

.dvc/config.local: .venv/.complete
	@# A remote inside the repository must be absolute, or `dvc push -A` writes to the root of the disk.
	@dvc remote add --quiet --force --local --default storage "$(CURDIR)/.cache/remote"
	@touch $@

.PHONY: setup
setup: .venv/.complete .dvc/config.local ## .venv from the lock, local DVC settings, the default suite's stack
	@python -m stages.stack.environments

.PHONY: run
run: setup ## the whole pipeline: dvc repro, and the report
	dvc repro
	@python -m stages.report.site --alone

.PHONY: plan
plan: setup ## what a run would reuse, what it would rerun, and why
	@dvc repro --quiet dates
	@python -m stages.run.plan

.PHONY: verify-dates
verify-dates: setup ## build each known solution on its derived date and around it: is the date right, does it matter
	@dvc repro --quiet dates
	@python -m stages.dates.rebuild.verify

.PHONY: task
task: setup ## one task without DVC: TASK=<instance id> [MODEL=<choice>] [WITH="<overrides>"]
	@python -m stages.task "$(TASK)" $(if $(MODEL),model=$(MODEL)) $(WITH)

.PHONY: report
report: setup ## results/report/index.html, from the workspace and all experiments
	dvc repro --quiet report
	@python -m stages.report --print
	@python -m stages.report.site

# Of 68 tasks and all parameters, `dvc exp show` alone would print over a hundred columns.
SHOWN := Experiment|(^|:)tasks\.(passed|passed_strictly|scoreable|flaky)$$|cost\.usd$$
SHOWN := $(SHOWN)|(suite|stack|agent|model|skills|sandbox)\.name$$

.PHONY: experiments
experiments: setup ## dvc exp show, with the totals and the choices alone
	@dvc exp show --no-pager --only-changed --drop '.*' --keep '$(SHOWN)'

.PHONY: compare
compare: .venv/.complete ## is B better than A? A=<revision|experiment|workspace> B=<…> [WITH="<options>"]
	@python -m stages.report.compare "$(A)" "$(B)" $(WITH)

.PHONY: export
export: .venv/.complete ## the run for other tools: FORMAT=spider2|inspect|csv|parquet [OUT=<folder>]
	@python -m stages.report.export --format "$(FORMAT)" $(if $(OUT),--out "$(OUT)")

.PHONY: controls
controls: setup ## is every verdict right? gold, the start databases and mutants of gold, under both scores
	@dvc repro --quiet dates
	@python -m stages.evaluate.controls

.PHONY: spider2
spider2: setup ## lay the official suite under data/spider2-dbt: SOURCE=<clone> START=<folder or zip> GOLD=<folder or zip>
	@python -m stages.suite.install --source "$(SOURCE)" --start "$(START)" --gold "$(GOLD)"

.PHONY: image
image: .venv/.complete ## the images of sandbox=docker: [STACK=<stack>] [BASE_IMAGE=<image>] [PLATFORM=<os/arch>]
	@BASE_IMAGE="$(BASE_IMAGE)" PLATFORM="$(PLATFORM)" python -m stages.run.docker.image $(STACK)

.PHONY: clean-docker
clean-docker: .venv/.complete ## remove the containers, volumes and networks that a killed run left behind
	@python -m stages.run.docker.labels

.PHONY: params
params: .venv/.complete ## rewrite params.yaml from conf/
	@python -m stages.common.compose

.PHONY: lint
lint: .venv/.complete ## ruff and mypy
	ruff check .
	ruff format --check .
	mypy

.PHONY: test
test: setup ## the tests, but for the heavy end-to-end ones and those that need Docker
	@python -m stages.stack.environments spider2
	pytest -n auto -m "not heavy and not docker"

.PHONY: test-heavy
test-heavy: setup ## the heavy end-to-end tests
	@python -m stages.stack.environments spider2
	pytest -n 2 --dist loadgroup -m "heavy and not docker"

.PHONY: test-docker
test-docker: setup ## the tests of the sealed sandbox; they need `make image`
	pytest -m docker

.PHONY: bench
bench: setup ## ratios of what the harness itself costs
	@python -m benchmarks

.PHONY: lock
lock: .venv/.complete ## resolve all lock files anew
	$(COMPILE) pyproject.toml --extra dev -o requirements.lock
	$(COMPILE) stacks/bootstrap.in -o stacks/bootstrap.lock
	$(COMPILE) stacks/current.in -o stacks/current.lock
	$(COMPILE) stacks/spider2.in -o stacks/spider2.lock
	$(COMPILE) pyproject.toml --extra inspect -o extras/inspect.lock
	$(COMPILE) -c requirements.lock docker/agent.in -o docker/agent.lock
	$(COMPILE) -c requirements.lock docker/relay.in -o docker/relay.lock

.PHONY: clean
clean: ## remove results and caches, finished trials included
	rm -rf .cache .stacks .dvc/cache .dvc/tmp results/runs results/suite results/*.log
