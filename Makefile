# Three commands matter: `make run`, `make test-quick` while one works, and `make test` before a change lands. Each installs what it
# lacks.

CARGO ?= cargo

# The test targets that start no servers but a PostgreSQL, and no browsers, beside the unit tests; and the others.
# tests/architecture.rs checks that each stands in one of the lists.
QUICK = architecture config engine gateway http mail mutants pages webauthn
REST = blackbox cli edge faults interop read_only signer

.PHONY: help run run-fleet deb test test-quick test-rest test-programs test-read-only test-run test-release test-install test-clients test-apps test-browser test-traefik test-faults test-fleet soak mutants lint systemd fuzz bench bench-fleet bench-gate bench-growth bench-instructions bench-mail bench-requests bench-signer bench-tls audit advisories clean

help:
	@echo "make run           a provider, a gate and a sample application on http://localhost:8080 (PORT=9080 for another port)"
	@echo "make run-fleet     three nodes over a PostgreSQL with a standby, behind HAProxy, on http://localhost:8080"
	@echo "make test-quick    formatting, lints, unit tests and the tests that start no server (three minutes when all is built)"
	@echo "make test          all of that, and what needs servers and browsers"
	@echo "make test-clients  relying parties that we did not write"
	@echo "make test-apps     DokuWiki, JupyterLab, Radicale and WsgiDAV behind the gate, and attacks on them"
	@echo "make test-browser  every page in Chromium: both languages, keyboard, accessibility"
	@echo "make test-traefik  attacks on the documented configuration of Traefik, which is built first (minutes)"
	@echo "make test-release  a release build, started as by make run (6 to 10 minutes)"
	@echo "make deb           a Debian package in target/debian (a release build: 5 to 15 minutes)"
	@echo "make test-install  the package and docs/how-to on a Debian 12 that boots systemd (root; the build, then minutes)"
	@echo "make test-faults   kill -9 and power cuts, 30 rounds each, and three minutes of a soak (six minutes)"
	@echo "make soak          eight hours of mixed load with faults (SOAK_SECONDS, SOAK_SEED), and a report"
	@echo "make test-fleet    PostgreSQL servers that are killed, hang and are replaced, nodes that stand still: nothing acknowledged is lost"
	@echo "make mutants       takes each guard out in turn: its tests must notice (MUTANTS=word for some; two hours for all)"
	@echo "make fuzz          what strangers send: each parser for FUZZ_SECONDS (10)"
	@echo "make bench         all that is compared with HAProxy, nginx, Envoy and bare Pingora, with plots (a release build, then ten minutes)"
	@echo "make bench-gate    the gate beside bare Pingora and HAProxy, as ratios"
	@echo "make bench-fleet   three nodes beside one server: token responses and gated requests, as ratios (a release build, then minutes)"
	@echo "make bench-growth  costs and memory as people, rules and connections grow, plotted (a release build, then ten minutes)"
	@echo "make bench-instructions what a request costs in instructions; a rise of 5 percent fails (a release build, then half a minute)"
	@echo "make bench-mail    sign-ins beside mail servers that take no mail, as ratios (a release build, then five minutes)"
	@echo "make bench-requests the parts of a request in instructions; a rise of 5 percent fails (a release build; PROFILE=dev: seconds)"
	@echo "make bench-signer  the signer beside bare threads on the same token, as ratios"
	@echo "make bench-tls     TLS, HTTP/2 and handshakes beside bare Pingora, HAProxy and nginx, as ratios"
	@echo "make audit         licences, bans, sources and advisories of the dependencies"

run:
	@conf/demo.sh

run-fleet:
	@conf/fleet.sh

test: test-quick test-rest

test-quick: lint
	@.ci/install quick
	$(CARGO) test --locked --no-fail-fast --lib --bins $(QUICK:%=--test %)

test-rest: test-programs test-run test-read-only systemd test-clients test-browser

lint:
	@.ci/install quick
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check

# The examples are built on their own: as a part of `cargo test --examples` they would be built as tests, and the tests would have no
# program to start.
test-programs:
	@.ci/install test
	$(CARGO) build --locked --bins --examples
	$(CARGO) test --locked --no-fail-fast $(REST:%=--test %)
	$(CARGO) test --locked --doc

# `make run` itself, on other ports, and built as a user builds it: what the tests depend on switches features on in crates that the
# program shares with them.
test-run:
	@.ci/install demo
	$(CARGO) build --locked --bin sealgate
	tests/demo/run.sh

# The same of a release build. Not a part of `make test`: beside the debug build, of which it can use nothing, it takes 6 to 10 minutes
# on two cores, and the source has nothing that depends on the profile. `make deb`, `make test-install` and `make soak` build it too.
test-release:
	@.ci/install demo
	$(CARGO) build --locked --release --bin sealgate
	tests/demo/run.sh target/release/sealgate

# Where this machine lets root mount a file as a disk.
test-read-only:
	@.ci/install test
	tests/read_only/run.sh

systemd:
	@.ci/install test
	systemd/verify.sh

test-clients:
	@.ci/install clients
	tests/clients/run.sh

# Not a part of `make test`: it fetches three applications.
test-apps:
	@.ci/install apps
	tests/apps/run.sh

test-browser:
	@.ci/install browser
	tests/browser/run.sh

# Not a part of `make test`: the first time it builds Traefik, which takes minutes.
test-traefik:
	@.ci/install test
	SEALGATE_TRAEFIK=$$(tests/proxies/traefik.sh) $(CARGO) test --locked --test blackbox forward_auth::behind_traefik -- --ignored

# BINARY=target/debug/sealgate packages what is built already.
BINARY ?=
deb:
	@.ci/install deb
	debian/build.sh $(BINARY)

# Not a part of `make test`: it needs root, a kernel that lets it boot a systemd, and a release build.
test-install: deb
	@.ci/install install
	tests/install/run.sh target/debian/sealgate_*.deb

test-faults:
	@.ci/install test
	FAULT_ROUNDS=$(or $(FAULT_ROUNDS),30) $(CARGO) test --locked --test faults -- --nocapture --test-threads=1
	tests/read_only/run.sh
	@.ci/install soak
	$(CARGO) build --locked --bin sealgate
	SEALGATE=$(CURDIR)/target/debug/sealgate SOAK_SECONDS=$(or $(SOAK_SECONDS),180) tests/soak/run.sh

# Servers of PostgreSQL that are killed, hang and are replaced under load, and nodes that are killed, cut off and stand still:
# FAULT_ROUNDS times each (1), and all of it in turn for SOAK_SECONDS (120).
test-fleet:
	@.ci/install quick
	$(CARGO) test --locked --test engine -- --ignored --nocapture failover
	$(CARGO) build --locked --example legacy
	$(CARGO) test --locked --test blackbox -- --ignored --nocapture --test-threads=1 failover

# The release build takes minutes. The report goes to SOAK_REPORT, or beside the run in target/.
soak:
	@.ci/install soak
	$(CARGO) build --locked --release --bin sealgate
	tests/soak/run.sh

# Not a part of `make test`, which checks only that every mutant still stands in the source.
mutants:
	@.ci/install test
	$(CARGO) test --locked --no-run
	$(CARGO) test --locked --test mutants -- --ignored --nocapture

# Not a part of `make test`: the first build takes minutes.
fuzz:
	@.ci/install fuzz
	fuzz/run.sh

# Of the build that is packaged. WRITE=1 puts what it prints into docs/performance.md, and the plots into docs/images.
bench:
	@.ci/install bench
	benches/all/tools.sh
	$(CARGO) build --locked --release --bin sealgate --example bare_proxy
	$(CARGO) bench --locked --profile release --bench signer --no-run
	node benches/all/run.mjs

bench-gate:
	@.ci/install bench
	$(CARGO) build --locked --release --bin sealgate --example bare_proxy
	node benches/gate/run.mjs

bench-tls:
	@.ci/install bench
	$(CARGO) build --locked --release --bin sealgate --example bare_proxy
	node benches/tls/run.mjs

# Of the build that is packaged, since what was counted before is of it too. ACCEPT=1 takes what is counted now.
bench-instructions:
	@.ci/install bench
	$(CARGO) build --locked --release --bin sealgate --example bare_proxy
	node benches/instructions/run.mjs

# CI counts those of the dev build, which the tests have built.
bench-requests:
	@.ci/install counts
	node benches/requests/run.mjs

bench-growth:
	@.ci/install bench
	$(CARGO) build --locked --release --bin sealgate
	node benches/growth/run.mjs

# A fleet as of make run-fleet, and one server beside it.
bench-fleet:
	@.ci/install bench
	@.ci/install fleet
	$(CARGO) build --locked --release --bin sealgate
	$(CARGO) bench --locked --profile release --bench signer --no-run
	node benches/fleet/run.mjs

bench-mail:
	@.ci/install run
	$(CARGO) build --locked --release --bin sealgate
	node benches/mail/run.mjs

bench-signer:
	@.ci/install run
	$(CARGO) bench --locked --profile release --bench signer

audit:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources
	@$(MAKE) --no-print-directory advisories

# Shown, and no failure: what is found is news of others' code, not of a change here; and the database may be out of reach.
advisories:
	@if ! command -v cargo-deny >/dev/null; then echo "advisories: not looked at, since cargo-deny is not there (make audit installs it)"; \
	elif ! timeout 60 $(CARGO) deny fetch db; then echo "advisories: not looked at, since their database cannot be reached"; \
	elif ! $(CARGO) deny check --disable-fetch advisories; then echo "advisories: see above what was found"; fi

clean:
	$(CARGO) clean
	rm -rf run
