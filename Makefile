# make          what there is
# make demo     a whole class graded, from nothing
# make test     the tests of every day; docs/testing.md says what runs when
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The first Python that is new enough; `make PYTHON=...` takes another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys, venv, ensurepip; raise SystemExit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=
# Assignments that `make verify` takes, such as "a03 a07"; none: all of them.
UNITS ?=
# What is installed beside the kit: `make install EXTRAS=` leaves PyTorch and the checks out.
# Versions are those of constraints.txt; `make install CONSTRAINTS=` takes the newest allowed.
EXTRAS ?= torch,dev,site,hub
# The index or folder that PyTorch comes from: without a GPU, one with its CPU build.
TORCH_INDEX ?=
export TORCH_INDEX
# nbgrader starts alembic by name, so the environment's bin must be on PATH.
export PATH := $(abspath $(BIN)):$(PATH)

# What pip cannot bring: a command that shows it is there, and Debian's package.
SYSTEM := bwrap:bubblewrap slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client munged:munge \
	ip:iproute2 nsenter:util-linux chromium:chromium fc-list:fontconfig setpriv:util-linux \
	smpirun:libsimgrid-dev shellcheck:shellcheck slurmdbd:slurmdbd mariadbd:mariadb-server-core \
	mariadb:mariadb-client-core zsh:zsh fish:fish \
	npm:npm sudo:sudo useradd:passwd

# `make image`: what builds (the first of podman, docker, buildah that works), and an image of
# Debian 12 to build on; BASE=here makes it from Debian's packages.
ENGINE ?=
BASE ?=

.PHONY: help install system demo test test-fast test-all fuzz build lectures compare slides site verify verify-stale benchmarks conformance bundle image sif golden lint format doctor clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed (Debian: apt-get install python3 python3-venv)." >&2; exit 2; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) install.py $(EXTRAS) </dev/null
	@touch $@

install: $(STAMP)  ## .venv with the kit in it; TORCH_INDEX=... names where PyTorch comes from

# Missing system packages are installed where we may, and named where we may not:
# then only the tests that need them are skipped, each with its reason.
system:  ## bubblewrap, Slurm, Chromium, SimGrid and others from Debian's packages
	@missing=""; \
	for pair in $(SYSTEM); do \
		PATH="$$PATH:/usr/sbin:/sbin" command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair##*:}"; \
	done; \
	missing="$$(echo $$missing | tr ' ' '\n' | sort -u | tr '\n' ' ')"; \
	[ -n "$${missing// /}" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as=""; \
	elif sudo -n true 2>/dev/null; then as="sudo -n"; \
	else as=none; fi; \
	if [ "$$as" != none ] && command -v apt-get >/dev/null; then \
		echo "Installing: $$missing"; \
		export DEBIAN_FRONTEND=noninteractive; \
		$$as apt-get update -qq </dev/null >/dev/null \
			&& $$as apt-get install -y -qq --no-install-recommends $$missing </dev/null >/dev/null && exit 0; \
		echo "apt-get did not succeed." >&2; \
	fi; \
	printf '%s\n' "" "NOT INSTALLED: $$missing" \
		"The tests that need them will be SKIPPED. To run them too:" \
		"    sudo apt-get update && sudo apt-get install --no-install-recommends $$missing" "" >&2

demo: $(STAMP) system  ## a class of submissions through nbgrader: table, feedback, CSV
	@$(PY) -m autograder demo

# One more than there are cores, since many tests wait; each process needs up to 2 GB.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? n + 1 : 5)))

test: $(STAMP) system  ## the tests of every day, the same ones for every commit; JOBS=2 at a time
	@$(PY) -m pytest -m "not release" -n $(JOBS) $(PYTEST_ARGS)

test-fast: $(STAMP)  ## what needs no Slurm, no browser, no patience
	@$(PY) -m pytest -m "not slow and not slurm and not browser and not release" $(PYTEST_ARGS)

# What fails doesn't keep the others from running.
test-all: $(STAMP) system  ## before a release: every test, verification, lectures, fuzz; hours
	@status=0; \
	$(PY) -m pytest $(PYTEST_ARGS) || status=1; \
	$(MAKE) --no-print-directory verify || status=1; \
	$(PY) -m ringside.course.lectures compare || status=1; \
	$(MAKE) --no-print-directory fuzz || status=1; \
	exit $$status

fuzz: $(STAMP)  ## what reads students' bytes, against bytes that nobody should send; FUZZ_MINUTES=10
	@$(PY) -m tests.fuzz.run

build: $(STAMP)  ## solutions/ -> assignments/
	@$(PY) -m autograder build

lectures: $(STAMP)  ## execute the lectures whose text or data changed
	@$(PY) -m ringside.course.lectures build

compare: $(STAMP)  ## execute all lectures anew, and compare their outputs with the notebooks'
	@$(PY) -m ringside.course.lectures compare

slides: lectures  ## the lectures as slides, in build/slides/
	@$(PY) -m ringside.course.lectures slides

site: lectures  ## the course's pages and slides, in build/site/
	@$(PY) -m ringside.course.lectures site

verify: $(STAMP) system  ## every wrong and right form, line and attack, recorded; UNITS="a03 a07"
	@$(PY) -m autograder verify --record $(UNITS)

MINUTES ?= 40
verify-stale: $(STAMP) system  ## what its record doesn't fit, within MINUTES=40; as CI does
	@$(PY) -m autograder verify --stale --again 1 --minutes $(MINUTES)

benchmarks: $(STAMP)  ## the figures of benchmarks/
	@set -e; for file in $(filter-out benchmarks/conformance_%,$(wildcard benchmarks/*.py)); do $(PY) "$$file"; done

conformance: $(STAMP)  ## the front ends against mpi4py's and torch's own tests
	@set -e; for file in $(wildcard benchmarks/conformance_*.py); do $(PY) "$$file"; done

bundle: $(STAMP)  ## the students' tree, in build/
	@$(PY) -m autograder bundle

image: $(STAMP)  ## images for docker, podman and hubs, in build/image/; BASE=here without a registry
	@$(PY) -m containers.build --engine "$(ENGINE)" --base "$(BASE)"

sif: build/image/ringside-student.tar  ## the same for Apptainer, build/image/ringside.sif
	@apptainer build --force build/image/ringside.sif containers/ringside.def

build/image/ringside-student.tar:
	@$(MAKE) image

lint: $(STAMP)  ## ruff and mypy
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

golden: $(STAMP)  ## render the job scripts in tests/cluster/golden anew, after a template changed
	@RENEW_GOLDEN=1 $(PY) -m pytest -q tests/cluster/test_golden.py

format: $(STAMP)  ## let ruff format and mend
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

doctor: $(STAMP)  ## what works on this machine
	@$(PY) -m ringside doctor

clean:  ## remove what is generated (not .venv, nor what a person or a course put there)
	@test -x $(PY) || { echo "There is no $(PY): \`make clean VENV=FOLDER\` names your environment." >&2; exit 2; }
	@$(PY) -m autograder.commands.clean
