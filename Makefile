# Needs Go, git, make, bash and a C compiler (for the race detector). Plain `make` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Pinned here and not in go.mod: what only checks the code must not be among what the product is built of.
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONLINT := go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 -shellcheck= -pyflakes=
# Of the Prometheus that docker-compose.yml runs (v3.16.0).
PROMTOOL := go run github.com/prometheus/prometheus/cmd/promtool@v0.316.0

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Run every scenario of the demo: one purchase, every failure, one charge
	@deploy/mysql/with bin/lab demo

.PHONY: up
up: build ## Start MySQL, PSP, server and reconciliation in the background; prints a curl line
	@deploy/local up

.PHONY: down
down: ## End what `make up` started
	@deploy/local down

.PHONY: test
test: ## Run all tests, with the race detector, on a MySQL that it starts
	@deploy/mysql/with go test -race -timeout 10m -parallel 4 ./... # most of them wait most of the time
	@go test -C internal/tools -count=1 ./... # anew each time: what they read lies outside their module, and Go would not see that it changed

.PHONY: proof
proof: build ## Hold the service to its bounds under hang, outage and lost answers; prints the figures
	@deploy/mysql/with bash -euc 'bin/lab proof; CHARGEONCE_PROOF=1 go test -race -count=1 -run "TestCases/case_17" ./webhook'

.PHONY: torture
torture: build ## Attack it for a minute with clients and faults, then check every promise (TORTURE=--duration=30m --seed=N …)
	@bin/lab torture $(TORTURE)

.PHONY: bench
bench: build ## Measure payments per second, latency and CPU beside the bare SQL (BENCH=--quick: some minutes)
	@MYSQL_DSN= CHARGEONCE_MYSQL_DIR=$(CURDIR)/.local/mysql-bench CHARGEONCE_MYSQL_PORT=3317 CHARGEONCE_MYSQL_BUFFER_POOL=4G CHARGEONCE_MYSQL_REDO_LOG=4G \
	  deploy/mysql/with bin/lab bench $(BENCH)

.PHONY: lab
lab: build ## Make every experiment of the documents, and a page of them: lab.html (some minutes)
	@deploy/mysql/with bin/lab run all --html lab.html

.PHONY: build
build: ## Build the programs into bin/
	@CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

.PHONY: lint
lint: ## Check the code and the contract
	@go run -C internal/tools ./generate lint
	@$(GOLANGCI_LINT) run ./...
	@cd internal/tools && $(GOLANGCI_LINT) run ./...

.PHONY: verify
verify: ## Check what deploys it: Compose, Kubernetes, load balancer, telemetry, alerts, the workflow
	@go run -C internal/tools ./checkdeploy
	@$(ACTIONLINT)
	@$(PROMTOOL) check config deploy/prometheus/prometheus.yml # and the rules that it names
	@$(PROMTOOL) test rules deploy/prometheus/tests/*.yml

.PHONY: generate
generate: ## Make the Go, gRPC, gateway and OpenAPI files from the .proto files, and the dashboard
	@go run -C internal/tools ./generate
	@go run -C internal/tools ./dashboard

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (30s)
	@for target in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs grep -oHE '^func Fuzz[A-Za-z0-9_]*' | sed 's/:func /:/'); do \
	  dir=$$(dirname "$${target%%:*}"); name=$${target##*:}; \
	  echo "fuzz $$dir $$name"; deploy/mysql/with go test "$$dir" -run '^$$' -fuzz "^$$name\$$" -fuzztime "$${FUZZTIME:-30s}"; \
	done
