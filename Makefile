# Every target works on a fresh machine that has Go; `make help` lists them.

GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
FUZZTIME ?= 30s
ARGS     ?=
BASE     ?= HEAD
TIMEOUT  ?= 10m
OUT      ?= bin/barnabas

GOFILES   = $$(find . -name '*.go' -not -path './.git/*' -not -path '*/testdata/*')

.DEFAULT_GOAL := help
.PHONY: help build run test check cross dist race fuzz interop microbench bench clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/barnabas
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(OUT) ./cmd/barnabas

run: build ## build, then serve one broker on 127.0.0.1:9092 (ARGS='--set key=value' to change it)
	exec bin/barnabas serve $(ARGS)

test: ## run every test
	$(GO) test -timeout $(TIMEOUT) ./...

check: ## formatting, vet, staticcheck, floors and tidiness; under a minute
	@bad=$$(gofmt -l $(GOFILES)); if [ -n "$$bad" ]; then echo "not gofmt-ed:"; echo "$$bad"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test -count=1 ./internal/lint
	cd bench && $(GO) vet ./...

cross: ## vet everything, tests too, as Windows and macOS compile it
	GOOS=windows $(GO) vet ./...
	GOOS=darwin $(GO) vet ./...

dist: build ## build the release archives for Linux, macOS and Windows into dist, with checksums
	$(GO) run ./packaging/dist -version '$(VERSION)' -ldflags '$(LDFLAGS)' -barnabas $(OUT)

race: ## run every test under the race detector, with assertions on
	$(GO) test -race -timeout 30m ./...

fuzz: ## run every fuzz target for FUZZTIME each (30s)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' .ci/fuzz

interop: build ## run real clients (kcat, Java and others that are installed) against the broker (ARGS='-run TestKill')
	BARNABAS_BIN='$(CURDIR)/bin/barnabas' interop/run.sh $(ARGS)

microbench: ## run the Go benchmarks 6 times here and at BASE (HEAD), and compare
	@GO='$(GO)' BASE='$(BASE)' .ci/microbench

bench: build ## measure against the null broker and others in alternating pairs and print the goals (ARGS='-smoke' for the short form)
	cd bench && $(GO) build -o bin/ . ./nullbroker ./kfakeserver ./apachekafka ./goals
	bench/bin/goals -barnabas bin/barnabas -bin bench/bin $(ARGS)

clean: ## remove what the targets built, not the data
	rm -rf bin bench/bin dist
