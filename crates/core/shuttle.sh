#!/usr/bin/env bash
# Runs the scenarios of this crate under Shuttle. `shuttle.sh full` takes minutes. `shuttle.sh
# weakened` shows that each scenario can fail, by leaving out steps of the shipped code.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target}/shuttle
export RUSTFLAGS='--cfg shuttle' CARGO_PROFILE_DEV_OPT_LEVEL=3 CARGO_PROFILE_DEV_DEBUG=0

# Loom checks the orderings: Shuttle treats all as sequentially consistent.
weakened='
mutex-announce mutex
condvar-wait queue
condvar-pass-on queue
semaphore-announce pool
semaphore-announce rwlock
channel-announce channel
channel-look select
slab-reclaim slab
slab-head-last slab
'

weaken() { # weaken NAME SCENARIO
    local binary output
    binary=$(cargo rustc --quiet --profile test --lib --message-format=json -- --cfg "weaken=\"$1\"" |
        grep -oE '"executable":"[^"]+"' | cut -d'"' -f4)
    if output=$(timeout 120 "$binary" "scenarios::$2" 2>&1) || ! grep -q 'failing schedule' <<<"$output"; then
        echo "weaken $1: MISSED by the scenario $2"
        return 1
    fi
    echo "weaken $1: caught by the scenario $2"
}

case "${1:-reduced}" in
    reduced) cargo test --lib scenarios ;;
    full) DAIKO_SHUTTLE_ITERATIONS=100000 cargo test --lib scenarios ;;
    weakened)
        export DAIKO_SHUTTLE_ITERATIONS=20000
        while read -r name scenario; do
            weaken "$name" "$scenario"
        done < <(sed '/^$/d' <<<"$weakened")
        ;;
    *)
        echo "usage: $0 [full | weakened]" >&2
        exit 2
        ;;
esac
