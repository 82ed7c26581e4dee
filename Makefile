# `make help` lists the targets. Only Rust, a C compiler and make are needed, and no root.
PREFIX ?= /usr/local
# The folder of the C library.
LIBDIR ?= $(PREFIX)/lib
STRIP ?= strip
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Absolute, because some scripts change the folder.
export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
DAIKO := $(CARGO_TARGET_DIR)/release/daiko
# The libraries of daiko run, which finds them in ../lib/daiko.
LIBRARIES := $(addprefix $(CARGO_TARGET_DIR)/release/,libdaiko_preload.so libdaiko_pthread.so)
# The library for C. The name of the shared one has the version of its binary interface.
CAPI := crates/capi
SONAME := libdaiko.so.0
HOST := $(shell rustc --print host-tuple)
TARBALL := daiko-$(VERSION).tar.gz
CHECK := cargo run --quiet --locked --package daiko-check --

.DEFAULT_GOAL := help
.PHONY: help demo test libraries conformance apps soak fuzz miri ports sanitize scx mpi build-mpi test-scx test-pair smt-evidence lint fmt clippy docs layers names prose site test-site build build-c install install-c uninstall dist static release deb package clean tools

help: ## Print this list
	@sed -n 's/\$$\$$/$$/; s/^\([a-z-]*\):.*## \(.*\)/\1@\2/p' Makefile | awk -F@ '{ printf "make %-10s %s\n", $$1, $$2 }'

demo: build ## Measure the cost of a wait with every mechanism on this machine (under a minute)
	@tools/demo $(DAIKO)

test: tools ## Run all checks that need neither root nor further packages (a few minutes)
	tools/test

libraries: tools ## Test libraries that use thread-locals, in fibers; needs a C++ compiler
	tools/libraries

# LTP and GLIBC name folders of built test programs (tools/conformance/README.md), FLAGS options of
# the runner, RUN another command.
conformance: $(if $(LTP)$(GLIBC),build) ## Run thread tests by daiko run: LTP=DIR GLIBC=DIR
	@cargo run --quiet --locked --package daiko-conformance -- $(LTP:%=--ltp %) $(GLIBC:%=--glibc %) $(FLAGS) -- $(or $(RUN),$(DAIKO) run)

# APPS lists beginnings of names (redis,stress-ng), FLAGS options of the lab (--quick).
apps: build ## Run installed applications natively and by daiko run (tens of minutes): APPS=
	@$(DAIKO) lab run apps --out $(CARGO_TARGET_DIR)/apps $(APPS:%=--apps %) $(FLAGS)

soak: tools ## Run models with full bounds, weakened protocols, random runs, fuzzing (many minutes)
	tools/soak

fuzz: tools ## Run only the fuzz targets, DAIKO_FUZZ_SECONDS (240) in total; needs a C++ compiler
	tools/fuzz $${DAIKO_FUZZ_SECONDS:-240}

miri: tools ## Run unit tests under Miri, with threads DAIKO_MIRI_SEEDS (16) times; needs nightly
	tools/miri

# FLAGS=quick runs a choice.
ports: tools ## Lint and test aarch64 and riscv64 in qemu-user; needs both and cross compilers
	tools/ports $(FLAGS)

sanitize: tools ## Run tests under AddressSanitizer and ThreadSanitizer; needs nightly
	tools/sanitize

# The feature changes two commands: the tests of the rest are those of `make test`.
scx: tools ## Lint and test the kernel scheduler and its command; needs clang 19 and libelf-dev
	@tools/need clang libelf.h zlib.h pkg-config
	cargo clippy --package daiko-scx --package daiko-cli --features daiko-cli/scx --all-targets --locked -- -D warnings
	cargo test --package daiko-scx --package daiko-cli --features daiko-cli/scx --lib --bins --test kernel --test native --test command --test pair --locked -- --show-output

mpi: tools ## Lint and test fibers that wait for messages of MPI; needs Open MPI or MPICH
	@tools/need $(or $(MPICC),mpicc) $(or $(MPIRUN),mpirun)
	cargo clippy --package daiko-mpi --features mpi --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --package daiko-mpi --features mpi --no-deps --locked
	cargo test --package daiko-mpi --features mpi --locked -- --show-output

build-mpi: tools ## Build libdaiko-mpi.so, and the lab's rank, beside the command
	@tools/need $(or $(MPICC),mpicc)
	@mkdir -p $(CARGO_TARGET_DIR)/release
	$(or $(MPICC),mpicc) -O2 -fPIC -shared -Wl,-soname,libdaiko-mpi.so -o $(CARGO_TARGET_DIR)/release/libdaiko-mpi.so crates/mpi/c/daiko-mpi.c
	cargo build --release --locked --package daiko-mpi --features mpi --bin daiko-lab-mpi

test-scx: ## Test that scheduler in QEMU, as root (a few minutes); fetches a kernel
	tools/test-scx

smt-evidence: build ## Measure the use of siblings, on a machine that has them (half an hour): OUT=
	@tools/smt-evidence $(DAIKO) $(or $(OUT),$(CARGO_TARGET_DIR)/smt-evidence)

test-pair: ## Test daiko pair in QEMU with siblings (some minutes); fetches a kernel
	tools/test-pair

lint: fmt clippy docs layers names prose ## Check formatting, lints, documentation and structure

fmt: tools ## Check that the code is formatted
	cargo fmt --all --check

clippy: tools ## Check lints, also in tests and models
	cargo clippy --workspace --exclude daiko-libraries --all-targets --locked -- -D warnings
	RUSTFLAGS='--cfg loom' cargo clippy --package daiko-core --tests --locked --target-dir $(CARGO_TARGET_DIR)/loom -- -D warnings
	RUSTFLAGS='--cfg shuttle' cargo clippy --package daiko-core --tests --locked --target-dir $(CARGO_TARGET_DIR)/shuttle -- -D warnings

docs: tools ## Build the API documentation in target/doc
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --exclude daiko-libraries --no-deps --locked

layers: tools ## Check that crates and modules import only from those below them
	tools/layers

names: tools ## Check that predicates return a bool, and that few types share a name
	$(CHECK) names

prose: tools ## Check the language of comments and documents
	$(CHECK) prose

site: tools ## Build the web page in target/site; RESULTS=DIR adds the report of a run of the lab
	@RESULTS=$(RESULTS) tools/site build

test-site: site ## Open its pages in a browser: widths, contrast, requests; needs chromium
	@tools/site test

build: tools
	cargo build --release --locked --package daiko-cli --package daiko-preload --package daiko-pthread

# A package of a distribution takes install-c alone for its library, DESTDIR=FOLDER.
build-c: tools
	cargo build --release --locked --package daiko-capi
	$(CAPI)/link $(CARGO_TARGET_DIR)/release/libdaiko_capi.a $(CARGO_TARGET_DIR)/release/$(SONAME)

install-c: build-c ## Install the C library and daiko.h, for example PREFIX=$$HOME/.local
	@tools/need $(STRIP)
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include $(CAPI)/include/daiko.h
	install -D -m 755 $(CARGO_TARGET_DIR)/release/$(SONAME) $(DESTDIR)$(LIBDIR)/libdaiko.so.$(VERSION)
	$(STRIP) --strip-unneeded $(DESTDIR)$(LIBDIR)/libdaiko.so.$(VERSION)
	ln -sf libdaiko.so.$(VERSION) $(DESTDIR)$(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(LIBDIR)/libdaiko.so
	install -D -m 644 $(CARGO_TARGET_DIR)/release/libdaiko_capi.a $(DESTDIR)$(LIBDIR)/libdaiko.a
	$(STRIP) --strip-debug $(DESTDIR)$(LIBDIR)/libdaiko.a
	@mkdir -p $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' $(CAPI)/daiko.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/daiko.pc

# The programs in target/ keep their line tables, for backtraces.
install: build install-c ## Install the command and the C library, for example PREFIX=$$HOME/.local
	@tools/need $(STRIP)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(DAIKO) $(DAIKO)-lab-processes
	$(STRIP) $(DESTDIR)$(PREFIX)/bin/daiko $(DESTDIR)$(PREFIX)/bin/daiko-lab-processes
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/daiko $(LIBRARIES) crates/rt/gdb/daiko.py
	$(STRIP) --strip-unneeded $(DESTDIR)$(PREFIX)/lib/daiko/*.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/daiko README.md docs/run.md LICENSE-MIT LICENSE-APACHE
	$(DAIKO) manual $(DESTDIR)$(PREFIX)/share

uninstall: ## Remove the installed files
	rm -f $(DESTDIR)$(PREFIX)/bin/daiko $(DESTDIR)$(PREFIX)/bin/daiko-lab-processes
	rm -rf $(DESTDIR)$(PREFIX)/share/doc/daiko $(DESTDIR)$(PREFIX)/lib/daiko
	cd $(DESTDIR)$(PREFIX)/share && rm -f man/man1/daiko.1 man/man1/daiko-*.1 bash-completion/completions/daiko fish/vendor_completions.d/daiko.fish zsh/site-functions/_daiko
	rm -f $(DESTDIR)$(PREFIX)/include/daiko.h $(DESTDIR)$(LIBDIR)/pkgconfig/daiko.pc
	rm -f $(DESTDIR)$(LIBDIR)/libdaiko.a $(DESTDIR)$(LIBDIR)/libdaiko.so $(DESTDIR)$(LIBDIR)/libdaiko.so.*

# The same commit gives the same bytes: git uses the time of the commit, and gzip adds none.
dist: ## Pack the committed sources into a tarball
	@tools/need git
	@mkdir -p $(CARGO_TARGET_DIR)
	git archive --format=tar --prefix=daiko-$(VERSION)/ HEAD | gzip -n -9 > $(CARGO_TARGET_DIR)/$(TARBALL)
	@cd $(CARGO_TARGET_DIR) && sha256sum $(TARBALL)

# With a target, so that build scripts and macros stay as they are.
static: tools ## Build the command without shared libraries, for any Linux of this processor
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --package daiko-cli --bin daiko --target $(HOST)

release: tools ## Check and build all that a release needs (an hour); it publishes nothing
	@tools/release

deb: tools ## Build Debian packages of the committed sources in target/deb; needs debhelper
	@tools/deb

package: tools ## Pack and build every crate as crates.io would, publish none; needs the network
	cargo publish --dry-run --workspace --exclude daiko-fuzz --exclude daiko-check --exclude daiko-conformance --exclude daiko-libraries --exclude daiko-site --locked $(FLAGS)

clean: ## Remove all build results
	cargo clean

tools:
	@tools/need cargo cc
