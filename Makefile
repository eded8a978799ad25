# Entry points; `make help` lists them. Each calls a script that can also be run alone.
.DEFAULT_GOAL := help
.PHONY: help setup build images dist test demo demo-down bench fuzz soak lint format clean

help: ## Show this list
	@echo "Tessera: GPU sharing and topology-aware GPU scheduling for Kubernetes"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

setup: ## Install everything a fresh Debian 12 machine needs (idempotent; the other targets call it)
	@scripts/setup test

build: ## Build the programs into build/release/bin
	@scripts/setup build
	@scripts/build release

images: ## Build the container image in build/images, without Docker ("scripts/images load" loads it into containerd, kind or minikube)
	@scripts/setup build
	@scripts/build release
	@scripts/images build

dist: ## Write the files of a release into build/dist: archives, image, chart, SBOM, checksums (ARCH=amd64,arm64 cross-builds)
	@scripts/setup build
	@scripts/dist $(if $(ARCH),--arch $(ARCH)) $(if $(URL),--url $(URL))

test: ## Run everything that CI runs: unit tests, sanitizers, lint, real cluster
	@scripts/test

demo: ## Start a real Kubernetes cluster with Tessera on this machine, and show a tour
	@scripts/demo up

demo-down: ## Remove the cluster of the demo
	@scripts/demo down

bench: ## Run the benchmarks, with ratios against a baseline in the same run
	@scripts/setup build
	@scripts/bench

fuzz: ## Fuzz every parser (FUZZ_SECONDS=30 each)
	@scripts/setup test-tools
	@scripts/fuzz

soak: ## Run fault campaigns on real clusters (CAMPAIGN=extender|agent|attacks|all, SOAK_MINUTES=10; docs/reliability.md)
	@scripts/setup test
	@scripts/soak

lint: ## Run clang-format, shellcheck, the word check and clang-tidy
	@scripts/setup test-tools
	@scripts/build dev
	@scripts/lint

format: ## Format every C++ file in place
	@scripts/format

clean: ## Remove the build directory (the cache outside the checkout stays)
	rm -rf build
