#!/usr/bin/env bash
# Runs the loom models of this crate. `loom.sh full` explores more preemptions, for many minutes.
set -eu
cd "$(dirname "$0")"
# Optimised, but not by --release: as in weaken.sh, so that both share their build of loom.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target}/loom
export RUSTFLAGS='--cfg loom' CARGO_PROFILE_DEV_OPT_LEVEL=3 CARGO_PROFILE_DEV_DEBUG=0

case "${1:-reduced}" in
    reduced) export LOOM_MAX_PREEMPTIONS=2 ;;
    full) export LOOM_MAX_PREEMPTIONS=4 ;;
    *)
        echo "usage: $0 [full]" >&2
        exit 2
        ;;
esac

cargo test --lib model
