# The main targets: `make run`, `make test-quick` during development, and `make test` before a change
# lands. Each target installs the packages that it lacks.

CARGO ?= cargo

# Test targets that start neither browsers nor servers except PostgreSQL, and all other test targets.
# tests/architecture.rs checks that every target is in one of the lists.
QUICK = architecture config engine gateway http mail mutants pages upstream webauthn
REST = blackbox cli directory edge faults interop read_only signer

# Clippy's driver is rustc with more lints. The tests are built with it as the wrapper of our crates, so one pass
# checks and compiles them. `cargo clippy` would check all crates and dependencies in addition, which took a third of
# the time of `make test`. A plain `cargo test` builds our crates once more.
DENY_WARNINGS = -Dwarnings__CLIPPY_HACKERY__
LINTED = lint test test-quick test-rest test-programs test-run test-read-only test-clients test-api test-grpc test-browser
$(LINTED): export RUSTC_WORKSPACE_WRAPPER = clippy-driver
$(LINTED): export CLIPPY_ARGS = $(DENY_WARNINGS)

.PHONY: help run run-cluster deb image profile release install test test-quick test-rest test-programs test-read-only test-run test-release test-install test-upgrade test-container test-clients test-api test-grpc test-apps test-browser test-traefik test-envoy test-faults test-cluster test-directory soak mutants lint rustdoc systemd docs fuzz bench bench-cluster bench-directory bench-gate bench-growth bench-instructions bench-mail bench-requests bench-signer bench-tls audit advisories clean

help:
	@echo "make run           provider, gateway and a sample application on http://app.localhost:8080 (PORT=9080: another port)"
	@echo "make run-cluster   three nodes over PostgreSQL with a standby, behind HAProxy, on http://localhost:8080"
	@echo "make test-quick    formatting, lints, unit tests and tests that start no server (three minutes after the first build)"
	@echo "make test          all tests"
	@echo "make test-clients  third-party OpenID Connect clients"
	@echo "make test-api      Schemathesis against the admin API"
	@echo "make test-grpc     gRPC's Python client and server through the gateway"
	@echo "make test-apps     DokuWiki, JupyterLab, Radicale and WsgiDAV behind the gateway, attacks on them, and login recipes"
	@echo "make test-browser  every page in Chromium: both languages, keyboard, accessibility"
	@echo "make test-traefik  attacks on the documented Traefik configuration (builds Traefik first: minutes)"
	@echo "make test-envoy    the same with Envoy (a download of 40 MB)"
	@echo "make test-release  a release build, started as by make run (6 to 10 minutes)"
	@echo "make rustdoc       the links in comments"
	@echo "make docs          the documentation as a site with search, in target/book (builds mdBook first: two minutes)"
	@echo "make deb           a Debian package in target/debian (the build takes 5 to 15 minutes)"
	@echo "make image         container images in target/image, for docker load (the build takes 5 to 15 minutes)"
	@echo "make release       package, images, documentation, bill of materials and checksums in target/release-VERSION"
	@echo "make install       the program, units, man pages and completions, for systems without dpkg (PREFIX, DESTDIR)"
	@echo "make test-container  the images, loaded and used (root)"
	@echo "make test-install  the package and the commands of docs/how-to in Debian 12 with systemd (root; builds the package first)"
	@echo "make test-upgrade  an older package (OLDER=FILE.deb) with state, upgraded in Debian 12 (root; builds the package first)"
	@echo "make test-faults   kill -9 and power cuts, 30 rounds each, and a three-minute soak test (six minutes)"
	@echo "make soak          eight hours of mixed load with faults (SOAK_SECONDS, SOAK_SEED), and a report"
	@echo "make test-cluster  PostgreSQL failover under load, suspended and disconnected nodes: nothing acknowledged is lost"
	@echo "make test-directory  sign-ins with a Samba domain controller (root; one minute after the build)"
	@echo "make mutants       removes each security check in turn: a test must fail (MUTANTS=word for some; two hours for all)"
	@echo "make fuzz          fuzzes each parser of untrusted input for FUZZ_SECONDS (10)"
	@echo "make bench         comparison with HAProxy, nginx, Envoy and bare Pingora, with plots (builds the package first, then ten minutes)"
	@echo "make bench-gate    the gateway compared with bare Pingora, HAProxy and Envoy, also with one thread"
	@echo "make bench-cluster three nodes compared with one server (builds the package first)"
	@echo "make bench-directory  processor time of a sign-in with a directory, compared with a local one (builds the package first, then a minute)"
	@echo "make bench-growth  cost and memory for growing numbers of users, rules and connections, with plots (a release build, then ten minutes)"
	@echo "make bench-instructions instructions per request; an increase of 5 percent fails (a release build, then half a minute)"
	@echo "make bench-mail    sign-ins while mail servers accept no mail (a release build, then five minutes)"
	@echo "make bench-requests instructions of the parts of a request; an increase of 5 percent fails (the packaged build; PROFILE=dev: seconds)"
	@echo "make bench-signer  the signer compared with plain threads on the same token"
	@echo "make bench-tls     TLS, HTTP/2 and handshakes compared with bare Pingora, HAProxy and nginx"
	@echo "make clean         deletes the build, run/, run-cluster/ and the databases of make run-cluster"
	@echo "make audit         licences, bans, sources and advisories of the dependencies"

run:
	@conf/demo.sh

run-cluster:
	@conf/cluster.sh

test: test-quick test-rest

test-quick: lint
	@.ci/install quick
	$(CARGO) test --locked --no-fail-fast --workspace --lib --bins $(QUICK:%=--test %)

test-rest: test-programs test-run test-read-only systemd test-clients test-api test-grpc test-browser

lint:
	@.ci/install quick
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) build --locked --workspace --all-targets

# Links in comments. Not part of `make test`: it would check all dependencies, which nothing else needs.
rustdoc:
	@.ci/install quick
	RUSTDOCFLAGS="-Dwarnings -Arustdoc::private_intra_doc_links" \
	    $(CARGO) doc --locked --quiet --workspace --no-deps --lib --document-private-items

# These tests wait for servers most of the time: `edge` needs half a minute of processor time and took
# two and a half minutes with one test for each core.
TEST_THREADS ?= 6

# `cargo test --examples` would build the examples as tests. The tests need them as programs.
test-programs:
	@.ci/install test
	tests/acme/pebble.sh
	tests/traces/collector.sh
	$(CARGO) build --locked --workspace --bins --examples
	$(CARGO) test --locked --no-fail-fast --workspace $(REST:%=--test %) -- --test-threads=$(TEST_THREADS)

# Tests `make run` on other ports with the build that a user gets: dev-dependencies enable additional
# features in shared crates.
test-run:
	@.ci/install demo
	$(CARGO) build --locked --bin sealgate
	tests/demo/run.sh

# The same with a release build. Not part of `make test`: the build takes 6 to 10 minutes on two cores
# in addition to the debug build, and no code depends on the profile.
test-release:
	@.ci/install demo
	$(CARGO) build --locked --release --bin sealgate
	tests/demo/run.sh target/release/sealgate

# Skipped if root cannot mount a file as a disk.
test-read-only:
	@.ci/install test
	tests/read_only/run.sh

systemd:
	@.ci/install test
	systemd/verify.sh

test-clients:
	@.ci/install clients
	tests/clients/run.sh

# Schemathesis, from PyPI.
test-api:
	@.ci/install test
	tests/api/run.sh

# gRPC's Python client and server.
test-grpc:
	@.ci/install test
	tests/grpc/run.sh

# The first run builds mdBook, which takes one to two minutes on two cores. That is too much for every change, so
# `make test` does not build the site: tests/architecture/links.rs checks the links and the table of contents, and
# .ci/nightly builds it.
docs:
	@.ci/install docs
	PATH="$${CARGO_TARGET_DIR:-target}/tools/bin:$$PATH" mdbook build --dest-dir "$(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/book"

# Not part of `make test`: it downloads four applications.
test-apps:
	@.ci/install apps
	tests/apps/run.sh
	tests/apps/logins.sh

test-browser:
	@.ci/install browser
	tests/browser/run.sh

# Not part of `make test`: the first run builds Traefik, which takes minutes.
test-traefik:
	@.ci/install test
	SEALGATE_TRAEFIK=$$(tests/proxies/traefik.sh) $(CARGO) test --locked --test blackbox forward_auth::behind_traefik -- --ignored

# Not part of `make test`: it downloads Envoy.
test-envoy:
	@.ci/install test
	SEALGATE_ENVOY=$$(tests/proxies/envoy.sh) $(CARGO) test --locked --test blackbox forward_auth::behind_envoy -- --ignored

# BINARY=target/debug/sealgate packages an existing build.
BINARY ?=
deb:
	@.ci/install deb
	debian/build.sh $(BINARY)

# Like test-run, with a release build. Not part of `make test`: the build takes 6 to 10 minutes on
# two cores in addition to the debug build, and no code depends on the profile.
image:
	@container/build.sh $(BINARY)

# Records which code is used under load; the build of the packaged program optimizes for it. Needed after an update of the compiler or of
# dependencies, and useful before a release.
profile:
	@release/profile.sh

# Everything that a release consists of, in target/release-VERSION.
release:
	@release/build.sh

# BINARY=target/debug/sealgate installs an existing build.
install:
	@.ci/install run
	[ -n "$(BINARY)" ] || release/program.sh
	$(or $(BINARY),target/optimized/sealgate) documents --to target/documents >/dev/null
	release/install.sh $(or $(BINARY),target/optimized/sealgate) target/documents "$(DESTDIR)" $(or $(PREFIX),/usr/local)

# Not part of `make test`: it needs root and a kernel that lets buildah mount directories. .ci/nightly runs it.
test-container:
	@.ci/install container
	$(CARGO) build --locked --bin sealgate
	tests/container/run.sh

# Not part of `make test`: it needs root, a kernel that allows booting systemd in a container, and a
# release build.
test-install: deb
	@.ci/install install
	tests/install/run.sh target/debian/sealgate_*.deb

# OLDER=FILE.deb is the package of the previous release. Without it, only the package's scripts are tested.
OLDER ?=
test-upgrade: deb
	@.ci/install install
	tests/install/upgrade.sh target/debian/sealgate_*.deb $(OLDER)

test-faults:
	@.ci/install test
	FAULT_ROUNDS=$(or $(FAULT_ROUNDS),30) $(CARGO) test --locked --test faults -- --nocapture --test-threads=1
	tests/read_only/run.sh
	@.ci/install soak
	$(CARGO) build --locked --bin sealgate
	SEALGATE=$(CURDIR)/target/debug/sealgate SOAK_SECONDS=$(or $(SOAK_SECONDS),180) tests/soak/run.sh

# Kills, suspends and replaces PostgreSQL servers under load, and kills, disconnects and suspends nodes:
# FAULT_ROUNDS times each (1), and all of them in turn for SOAK_SECONDS (120).
test-cluster:
	@.ci/install quick
	$(CARGO) test --locked --test engine -- --ignored --nocapture failover
	$(CARGO) build --locked --example legacy
	$(CARGO) test --locked --test blackbox -- --ignored --nocapture --test-threads=1 failover

test-directory:
	@.ci/install directory
	$(CARGO) test --locked --test directory --test blackbox --no-run
	tests/directory/samba.sh $(CARGO) test --locked --test directory --test blackbox -- --ignored active_directory::

# The release build takes minutes. The report is written to SOAK_REPORT, by default next to the run in
# target/.
soak:
	@.ci/install soak
	release/program.sh
	tests/soak/run.sh

# Not part of `make test`, which only checks that the source text of every mutant exists.
mutants:
	@.ci/install test
	tests/acme/pebble.sh
	tests/traces/collector.sh
	$(CARGO) test --locked --no-run
	$(CARGO) test --locked --test mutants -- --ignored --nocapture

# Not part of `make test`: the first build takes minutes.
fuzz:
	@.ci/install fuzz
	fuzz/run.sh

# Uses the packaged build. WRITE=1 writes the output to docs/explanation/performance.md and the plots to docs/images.
bench:
	@.ci/install bench
	benches/all/tools.sh
	release/program.sh
	$(CARGO) build --locked --profile dist --example bare_proxy --example h2_load
	$(CARGO) bench --locked --profile dist --bench signer --no-run
	node benches/all/run.mjs

bench-gate:
	@.ci/install bench
	@tests/proxies/envoy.sh >/dev/null
	release/program.sh
	$(CARGO) build --locked --profile dist --example bare_proxy
	node benches/gate/run.mjs

bench-tls:
	@.ci/install bench
	benches/tls/client.sh
	release/program.sh
	$(CARGO) build --locked --profile dist --example bare_proxy
	node benches/tls/run.mjs

# Uses the packaged build, like the recorded counts. ACCEPT=1 records the new counts.
bench-instructions:
	@.ci/install bench
	release/program.sh
	$(CARGO) build --locked --profile dist --example bare_proxy
	node benches/instructions/run.mjs

# CI counts the dev build, which the tests need anyway. Clippy's driver optimizes it even less than rustc.
ifeq ($(PROFILE),dev)
bench-requests: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
bench-requests: export CLIPPY_ARGS = $(DENY_WARNINGS)
endif
bench-requests:
	@.ci/install counts
	node benches/requests/run.mjs

bench-growth:
	@.ci/install bench
	release/program.sh
	node benches/growth/run.mjs

# Starts a cluster as `make run-cluster` does, and a single server.
bench-cluster:
	@.ci/install bench
	@.ci/install cluster
	release/program.sh
	$(CARGO) bench --locked --profile dist --bench signer --no-run
	node benches/cluster/run.mjs

bench-directory:
	@.ci/install test
	release/program.sh
	node benches/directory/run.mjs

bench-mail:
	@.ci/install run
	release/program.sh
	node benches/mail/run.mjs

bench-signer:
	@.ci/install run
	$(CARGO) bench --locked --profile dist --bench signer

audit:
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources
	@$(MAKE) --no-print-directory advisories

# Prints advisories without failing: they concern dependencies, not the change under test, and their
# database may be unreachable.
advisories:
	@if ! command -v cargo-deny >/dev/null; then echo "advisories: not checked, because cargo-deny is not installed (make audit installs it)"; \
	elif ! timeout 60 $(CARGO) deny fetch db; then echo "advisories: not checked, because the database cannot be reached"; \
	elif ! $(CARGO) deny check --disable-fetch advisories; then echo "advisories: found, see above"; fi

# If root runs `make run-cluster`, the databases are outside its directory. A file contains their
# paths.
clean:
	$(CARGO) clean
	[ ! -e run-cluster/databases ] || xargs -d '\n' rm -rf <run-cluster/databases
	rm -rf run run-cluster
