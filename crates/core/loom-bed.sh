#!/usr/bin/env bash
# Runs the loom models of this crate. `loom.sh full` explores more preemptions, for many minutes.
set -eu
cd "$(dirname "$0")"
# Optimised, but not by --release: as in weaken.sh, so that both share their builds.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target}/loom
export RUSTFLAGS='--cfg loom' CARGO_PROFILE_DEV_OPT_LEVEL=3 CARGO_PROFILE_DEV_DEBUG=0

# Most of a reduced run is in loom: to optimise this crate takes longer than it saves.
case "${1:-reduced}" in
    reduced) export LOOM_MAX_PREEMPTIONS=2 level=0 ;;
    full) export LOOM_MAX_PREEMPTIONS=4 level=3 ;;
    *)
        echo "usage: $0 [full]" >&2
        exit 2
        ;;
esac

cargo test --config "profile.dev.package.daiko-core.opt-level=$level" --lib bed::model -- --test-threads 1
