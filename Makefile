# What a person or a machine does with this tree; `make help` lists it. Set-up happens by itself, once.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# lint: files changed since this commit; ALL=1 takes every file.
BASE ?=
ALL ?=
# bench: a python that has PyTorch, for the ratio of step times; PyTorch is not needed otherwise.
PYTORCH ?=
# check: only suites whose name matches, e.g. make check ONLY='Parser*'
ONLY ?=

stamp = build/setup/$(1).done
program = build/release/addnorm

.PHONY: help setup build check test demo lint format bench install clean

help:
	@echo 'make build               the program, at $(program)'
	@echo 'make test                everything: release, sanitizers, thread sanitizer, structure'
	@echo 'make check [ONLY=Foo*]   the release tests only'
	@echo 'make demo                Post-LN and Pre-LN on real text, a report in runs/demo'
	@echo 'make bench [PYTORCH=python]    speed against the machine'\''s own peak, and PyTorch'\''s'
	@echo 'make lint [ALL=1] [BASE=ref]   clang-format and clang-tidy on changed files'
	@echo 'make format              clang-format in place'
	@echo 'make install PREFIX=dir  headers, libraries, CMake package, program'
	@echo 'make setup               installs everything that the targets above need'
	@echo 'make clean               removes build/'

# Debian and npm packages of a group; nothing happens, and no network is used, where they are there.
build/setup/%.done: tools/setup.sh tools/packages.txt $(wildcard web/package.json web/package-lock.json)
	@tools/setup.sh $*
	@mkdir -p $(@D) && touch $@

setup: $(foreach group,build test demo lint bench,$(call stamp,$(group)))

build: $(call stamp,build)
	@tools/build.sh release $(JOBS) addnorm_cli

check: $(call stamp,build) $(call stamp,test)
	@tools/build.sh release $(JOBS)
	@tools/run_tests.py build/release --jobs $(JOBS) $(if $(ONLY),--only '$(ONLY)')

test: $(call stamp,build) $(call stamp,test)
	@JOBS=$(JOBS) tools/test.sh

demo: build $(call stamp,demo)
	@tools/demo.sh $(program)

bench: $(call stamp,build) $(call stamp,bench)
	@tools/build.sh release $(JOBS)
	@tools/bench.sh build/release $(PYTORCH)

lint: $(call stamp,build) $(call stamp,test) $(call stamp,lint)
	@JOBS=$(JOBS) BASE='$(BASE)' ALL='$(ALL)' tools/lint.sh

format: $(call stamp,lint)
	@git ls-files -co --exclude-standard '*.h' '*.cpp' | xargs clang-format-19 -i

install: build
	@tools/build.sh release $(JOBS) addnorm_all
	@cmake --install build/release --prefix '$(PREFIX)' | tail -n 3

clean:
	rm -rf build
