# The front door. `make help` lists what is here; everything behind it is a script that can be read and run alone.
.DEFAULT_GOAL := help
.PHONY: help setup build images test demo demo-down bench fuzz soak lint format clean

help: ## This list
	@echo "Tessera: GPU sharing and topology-aware GPU scheduling for Kubernetes"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

setup: ## Install what a fresh Debian 12 machine needs (idempotent; the other targets call it)
	@scripts/setup test

build: ## Build the programs into build/release/bin
	@scripts/setup build
	@scripts/build release

images: ## Container image without Docker, into build/images ("scripts/images load" hands it to containerd, kind or minikube)
	@scripts/setup build
	@scripts/build release
	@scripts/images build

test: ## Everything CI runs: unit tests, sanitizers, lint, real cluster
	@scripts/test

demo: ## A real Kubernetes cluster on this machine with Tessera in it
	@scripts/demo up

demo-down: ## Take the demo's cluster away again
	@scripts/demo down

bench: ## Benchmarks, with ratios against a baseline in the same run
	@scripts/setup build
	@scripts/bench

fuzz: ## Fuzz every parser (FUZZ_SECONDS=30 each)
	@scripts/setup test-tools
	@scripts/fuzz

soak: ## Long fault campaigns on a real cluster (SOAK_ROUNDS=3)
	@scripts/setup test
	@scripts/soak

lint: ## clang-format, clang-tidy and shellcheck
	@scripts/setup test-tools
	@scripts/build dev
	@scripts/lint

format: ## Format every C++ file in place
	@scripts/format

clean: ## Remove the build directory (the cache outside the checkout stays)
	rm -rf build
