# Norn. `make help` lists the targets.
SHELL := bash

PREFIX  ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.0.0-dev)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# The version comes from LDFLAGS; -buildvcs would fail in checkouts of others.
export GOFLAGS := $(strip $(GOFLAGS) $(if $(findstring -buildvcs,$(GOFLAGS)),,-buildvcs=false))

FUZZTIME  ?= 30s
BENCHARGS ?=
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.1.4
GOLANGCI  := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/norn, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o bin/norn ./cmd/norn

.PHONY: build-test
build-test: ## bin/norn-test, whose clock can be set wrong (--test-clock-offset); never for real work
	CGO_ENABLED=0 go build -tags norntest -trimpath -ldflags "-X main.version=$(VERSION)+test -X main.commit=$(COMMIT)" -o bin/norn-test ./cmd/norn

PLATFORMS ?= linux/amd64 linux/arm64 linux/386 darwin/arm64 freebsd/amd64 windows/amd64
.PHONY: platforms
platforms: ## that norn and the Go client compile for PLATFORMS, for 32 bits the client alone; minutes each the first time
	@failed=; for p in $(PLATFORMS); do \
		norn=./cmd/norn; case $$p in */386) norn= ;; esac; \
		if CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build -o /dev/null $$norn ./client/...; then echo "$$p compiles"; else failed="$$failed $$p"; fi; \
	done; test -z "$$failed" || { echo "does not compile:$$failed"; exit 1; }

.PHONY: install
install: build ## to $(PREFIX)/bin, or where `go install` puts programs
	@dir="$(if $(PREFIX),$(PREFIX)/bin,$$(go env GOBIN))"; dir="$${dir:-$$(go env GOPATH)/bin}"; \
	mkdir -p "$$dir" && install -m 0755 bin/norn "$$dir/norn" && echo "installed $$dir/norn"

.PHONY: test
test: ## everything that must pass, with -race (V=1: all output)
	@.ci/test

.PHONY: quick
quick: ## the tests with -short, without -race: while editing
	go test -short ./...

.PHONY: race-free
race-free: ## what `test` runs, without the race detector (needs no C compiler)
	@RACE=0 .ci/test

.PHONY: check
check: ## layout, style and coverage table only: seconds; prints the figures that may not get worse
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }
	go vet ./...
	@go test -count=1 -v -run '^TestMeasures$$' ./internal/house | sed -n 's/^.*ratchet: //p'
	go test -count=1 ./internal/house

.PHONY: reference
reference: ## write docs/reference/{commands,settings,metrics,errors,limits}.md anew from the source
	go test -count=1 ./internal/reference -run '^TestPagesAreCurrent$$' -rewrite
	go test -count=1 ./cmd/norn -run '^TestCommandsPageIsCurrent$$' -rewrite

.PHONY: site
site: ## the pages as a site with search, in bin/site/public (open index.html); needs node and npm
	cd site && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	go run ./site -to bin/site/content
	rm -rf bin/site/public && cd site && npm run --silent build
	mkdir -p bin/site/public/assets && cp site/assets/* bin/site/content/search.js bin/site/public/assets
	cp site/node_modules/minisearch/dist/umd/index.js bin/site/public/assets/minisearch.js
	go run ./site -check bin/site/public

.PHONY: site-browser
site-browser: ## the site of `make site` in a headless browser, from its files (needs node, npm, chromium)
	$(NPM_CI)
	cd web/browser && node --test --test-timeout=120000 site.test.mjs

.PHONY: lint
lint: check ## check, then golangci-lint (fetched and built on first use)
	@if [ "$$(golangci-lint version --short 2>/dev/null)" = 2.15.0 ]; then golangci-lint run ./...; else go run $(GOLANGCI) run ./...; fi

.PHONY: release
release: ## archives, deb, rpm, image, chart, SBOMs and checksums in bin/release, and their tests (VERSION=0.1.0; PLATFORMS=linux/amd64: fewer)
	VERSION="$(VERSION)" $(if $(filter command line environment,$(origin PLATFORMS)),PLATFORMS="$(PLATFORMS)") packaging/release.sh
	cd packaging && NORN_RELEASE=$(CURDIR)/bin/release go test -count=1 -v . | grep -E '^(=== RUN|--- |ok|FAIL|PASS|    .*(NOT RUN|ok:|_test.go))'; exit $${PIPESTATUS[0]}

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME=30s each, and how often it was executed
	@.ci/fuzz $(FUZZTIME)

.PHONY: connections
connections: ## hold 10,000 idle connections on one node (NORN_TEST_CONNECTIONS)
	NORN_TEST_CONNECTIONS=$${NORN_TEST_CONNECTIONS:-10000} go test -count=1 ./node -run TestManyIdleConnections -v

.PHONY: scale
scale: ## count what 50, 100 and 200 whole cores say to each other in virtual time (NORN_SCALE=4096 partitions; 2 GiB)
	NORN_SCALE=$${NORN_SCALE:-4096} go test -count=1 ./node/core -run '^TestScale$$' -v -timeout 60m

.PHONY: bench
bench: build ## the scenarios of docs/explanation/performance.md, or one with BENCHARGS='--scenario …'
	.ci/bench

.PHONY: rivals
rivals: build ## Norn beside NATS JetStream on this machine, the same work in turns (RIVALARGS='-rounds 5 -scale 2'); fetches and builds NATS
	cd bench/rivals && go build -trimpath -o ../../bin/ . github.com/nats-io/nats-server/v2
	bin/rivals $(RIVALARGS)

.PHONY: kills
kills: ## kill -9 the server 100 times under load (NORN_TEST_KILLS)
	NORN_TEST_KILLS=$${NORN_TEST_KILLS:-100} go test ./cmd/norn -run TestKillAtRandomMoments -v -timeout 30m

.PHONY: cluster
cluster: ## kill, wipe, stop, damage and copy the nodes of clusters under load (NORN_TEST_TASKS)
	NORN_TEST_CLUSTER=1 NORN_TEST_TASKS=$${NORN_TEST_TASKS:-100000} go test -count=1 ./cmd/norn -run '^Test(Cluster|Containers|Session|Work|StopLetsWaitersGo)' -v -timeout 30m
	NORN_TEST_CLUSTER=1 go test -count=1 ./jepsen/lab -run '^Test(OneIsCutOffAnotherWiped|MixWithoutRoot|ClaimStress)$$' -v -timeout 10m

.PHONY: cron-faults
cron-faults: ## kill, freeze and cut off the node that launches schedules, 20 times each (NORN_TEST_ATTACKS), and say how late launches were
	NORN_TEST_CLUSTER=1 NORN_TEST_BARS=1 NORN_TEST_ATTACKS=$${NORN_TEST_ATTACKS:-20} go test -count=1 ./cmd/norn -run '^TestClusterCron(Killed|Frozen|Partitioned)$$' -v -timeout 60m
	NORN_TEST_CLUSTER=1 NORN_TEST_BARS=1 NORN_TEST_SCHEDULES=100000 NORN_TEST_DUE=10000 go test -count=1 ./cmd/norn -run '^TestClusterCronCrowd$$' -v -timeout 20m

FILL ?= 500
.PHONY: fill
fill: ## fill a wiped node of three with FILL=500 MB, alone and beside 64 producers: MB/s, processor time
	NORN_TEST_CLUSTER=1 NORN_TEST_FILL=$(FILL) go test -count=1 ./cmd/norn -run '^TestClusterFill$$' -v -timeout 30m

.PHONY: chaos
chaos: ## kill, stop and restart the nodes of a cluster at random under 20 workers (NORN_TEST_CHAOS=600 seconds, NORN_TEST_SEED)
	NORN_TEST_CLUSTER=1 NORN_TEST_CHAOS=$${NORN_TEST_CHAOS:-600} go test -count=1 ./cmd/norn -run '^TestClusterChaos$$' -v -timeout 60m

.PHONY: soak
soak: ## load three nodes for MINUTES=60 at RATE=1000 tasks a second: do memory, disk, files and latency stay as they are
	.ci/soak

.PHONY: databases
databases: ## all of `test`, and the outbox against PostgreSQL, MariaDB and SQLite, as far as they are installed
	@DATABASES=1 .ci/test

NPM_CI := cd web/browser && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
.PHONY: api
api: build ## lint /openapi.json, and type-check a TypeScript client that is made from it (needs node, npm)
	$(NPM_CI)
	cd web/browser && NORN=$(CURDIR)/bin/norn node --test --test-timeout=300000 openapi.test.mjs

.PHONY: pages
pages: api ## `api`, and the dashboard in a headless browser (needs node, npm, chromium; SHOTS=directory for pictures, PICTURES=1 for those of docs)
	cd web/browser && NORN=$(CURDIR)/bin/norn PICTURES=$(if $(PICTURES),$(CURDIR)/docs/images) node --test --test-timeout=600000 pages.test.mjs

PREACT := 11.2.0
HTM    := 3.1.1
UPLOT  := 1.6.32
DAGRE  := 3.1.3
.PHONY: vendor-pages
vendor-pages: ## fetch anew what others wrote of the dashboard, at the versions above
	@.ci/vendor-pages $(PREACT) $(HTM) $(UPLOT) $(DAGRE)

MODEL ?=
.PHONY: model
model: ## every reachable state of small clusters, and what is found when a rule is left out (MODEL=words of some searches); 3 GB
	NORN_TEST_MODEL=1 NORN_TEST_MODEL_ONLY='$(MODEL)' go test -count=1 ./election/model -run '^TestExperiments$$' -v -timeout 6h

SEED    ?= 1
SEEDS   ?= 1000
SIMARGS ?=
CRONS ?= 20
.PHONY: sim
sim: ## the simulator: SEEDS=1000 seeds of one node from SEED=1, a 20th of clusters, CRONS=20 of schedules (SIMARGS='-nodes=many -events=0': only clusters, all of a history)
	@mkdir -p bin && go build -o bin/sim ./jepsen/sim/cmd && bin/sim -seed $(SEED) -seeds $(SEEDS) $(SIMARGS)
	go test -count=1 ./jepsen/sim -run '^TestCron' -crons $(CRONS) -seed $(SEED) -timeout 60m

MUTANTARGS ?=
.PHONY: mutants
mutants: ## make each mistake on purpose and say what finds it, and when (MUTANTARGS='-only=m3,m7 -limit=2m')
	@mkdir -p bin && go build -tags mutants -o bin/hunt ./jepsen/hunt/cmd && bin/hunt $(MUTANTARGS)

SECONDS_OF_FAULTS = $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),30)
FAULT    ?= partition
WORKLOAD ?= enqueue
LABARGS  ?=
.PHONY: lab
lab: build ## real nodes, real faults: FAULT=partition WORKLOAD=enqueue SECONDS=30 SEED=1 (LABARGS=-list: all there are)
	@go build -o bin/lab-run ./jepsen/lab/cmd && bin/lab-run -norn bin/norn $(if $(wildcard bin/norn-test),-clocks bin/norn-test) -fault "$(FAULT)" -workload "$(WORKLOAD)" -seconds $(SECONDS_OF_FAULTS) -seed $(SEED) $(LABARGS)

OTHER ?= HEAD~10
.PHONY: other
other: ## bin/norn-other: the build of another commit (OTHER=HEAD~10), or of this one under another version, for upgrades in the laboratory
	@mkdir -p bin && dir="$$(mktemp -d)" && trap 'rm -rf "$$dir"' EXIT && to="$$PWD/bin/norn-other" && \
	if git archive "$(OTHER)" 2>/dev/null | tar -x -C "$$dir" 2>/dev/null && cd "$$dir"; then version="$(OTHER)"; else version=0.0.0-other; fi && \
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$$version" -o "$$to" ./cmd/norn && echo "bin/norn-other is $$version"

.PHONY: lab-all
lab-all: build build-test $(if $(NORN_LAB_OTHER),,other) ## a run of the laboratory for each fault, SECONDS=30 each, and a table in bin/lab/all.md; 25 minutes with SECONDS=5 (NORN_LAB_OTHER=FILE: the other build)
	@go build -o bin/lab-run ./jepsen/lab/cmd && bin/lab-run -all -norn bin/norn -old "$(or $(NORN_LAB_OTHER),bin/norn-other)" -clocks bin/norn-test -workload "$(WORKLOAD)" -seconds $(SECONDS_OF_FAULTS) -seed $(SEED) $(LABARGS)

.PHONY: licenses
licenses: ## the licences that ship in the program, after a dependency has changed
	go run .ci/licenses.go > cmd/norn/licenses.txt

.PHONY: govulncheck
govulncheck: ## known vulnerabilities in what is linked and called (fetches the checker, and asks vuln.go.dev)
	go run $(GOVULNCHECK) ./...

.PHONY: demo
demo: build ## the guided tour on real input
	bin/norn demo

.PHONY: proto
proto: ## regenerate proto/norn/v1/*.pb.go and the messages of clients/ (needs protoc)
	.ci/proto

.PHONY: clean
clean: ## remove bin/
	rm -rf bin
