# mcp-aggregator: every target is at most three lines; the work is in the packages they name.
FUZZTIME ?= 10s
BENCHFLAGS ?=
# Empty without git: the program then says what the build information knows.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
PEERS = e2e/node_modules/.package-lock.json

.PHONY: build test check race e2e conformance soak bench fuzz clean

build: ## bin/mcp-aggregator, static
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/mcp-aggregator ./cmd/mcp-aggregator

test: check race ## what every change must pass, under two minutes on two cores

check: ## vet and staticcheck, the tagged suites included
	go vet -tags e2e ./...
	go tool staticcheck -tags e2e ./...

race: ## all unit tests under the race detector
	go test -race ./...

e2e: build $(PEERS) ## the built program against real clients and servers
	go test -tags e2e -count=1 -timeout 10m -parallel 6 ./e2e

conformance: build $(PEERS) ## the official conformance suite through the built program
	go test -tags e2e -count=1 -timeout 10m -v ./e2e/conformance

soak: build ## 30,000 sessions, 1,000 crashes, 200,000 calls leave nothing behind; SOAK=short in half a minute
	go test -tags e2e -count=1 -timeout 60m -v ./e2e/soak

bench: build ## ratios against bare relays
	go run ./bench $(BENCHFLAGS)

fuzz: ## every fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME)

clean:
	rm -rf bin e2e/node_modules

$(PEERS): e2e/package-lock.json
	cd e2e && npm ci --ignore-scripts --loglevel=error
