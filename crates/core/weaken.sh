#!/usr/bin/env bash
# Shows that every model can fail: builds the crate with one ordering or step of the shipped code
# weakened, runs the models of the folder that the weakening is in, and expects a failure.
set -eu
cd "$(dirname "$0")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target}/loom
export RUSTFLAGS='--cfg loom' CARGO_PROFILE_DEV_OPT_LEVEL=3 CARGO_PROFILE_DEV_DEBUG=0 LOOM_MAX_PREEMPTIONS=2

sites=$(grep -rnoE '(weaken = |unless_weakened!\()"[a-z-]+"' src |
    sed -E 's|^src/([a-z]+)/.*"([a-z-]+)"$|\1 \2|' | sort -u)
count=0
while read -r folder name; do
    # The flag goes to this crate alone, so that its dependencies are built once for all names.
    binary=$(cargo rustc --quiet --profile test --lib --message-format=json \
        -- --cfg "weaken=\"$name\"" | grep -oE '"executable":"[^"]+"' | cut -d'"' -f4)
    if output=$(timeout 120 "$binary" "$folder::" 2>&1); then
        echo "weaken $name: the models of $folder still pass" >&2
        exit 1
    fi
    failed=$(grep -m 1 -E '^test .*FAILED$' <<<"$output" | cut -d' ' -f2)
    echo "weaken $name: caught by ${failed:-a model that did not end}"
    count=$((count + 1))
done <<<"$sites"
echo "$count weakenings, all caught"
