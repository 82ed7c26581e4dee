#!/usr/bin/env bash
# Shows that every model can fail: builds the crate with one ordering or step of the shipped code
# weakened, runs the models of the folder that the weakening is in, and expects a failure.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-../../target}/loom
export RUSTFLAGS='--cfg loom' CARGO_PROFILE_DEV_OPT_LEVEL=3 CARGO_PROFILE_DEV_DEBUG=0 LOOM_MAX_PREEMPTIONS=2
# Against a model that never ends; long enough for a busy machine.
within="timeout 900"

sites=$(grep -rnoE '(weaken = |unless_weakened!\()"[a-z-]+"' src |
    sed -E 's|^src/([a-z]+)/.*"([a-z-]+)"$|\1 \2|' | sort -u)
# The models as they ship, or with one site weakened: the path of the built tests. The flag goes to
# this crate alone, so that its dependencies are built once for all names.
build() {
    cargo rustc --quiet --config 'profile.dev.package.daiko-core.opt-level=0' --profile test --lib \
        --message-format=json -- ${1:+--cfg "weaken=\"$1\""} |
        grep -oE '"executable":"[^"]+"' | cut -d'"' -f4
}

# A model that fails without a weakening would seem to catch each of them.
binary=$(build)
$within "$binary" model >/dev/null || {
    echo "the models fail without any weakening: see loom.sh" >&2
    exit 1
}
caught=0
missed=0
while read -r folder name; do
    binary=$(build "$name")
    # Not by the line of the test: a deadlock that loom finds may abort, as more panics follow.
    if ! output=$($within "$binary" "$folder::model" 2>&1) &&
        failed=$(grep -m 1 -oE "^thread '$folder::model::[^']+' .*panicked" <<<"$output"); then
        echo "weaken $name: caught by $(cut -d"'" -f2 <<<"$failed")"
        caught=$((caught + 1))
    else
        echo "weaken $name: MISSED by the models of $folder"
        missed=$((missed + 1))
    fi
done <<<"$sites"
echo "$caught weakenings caught, $missed missed"
[ "$missed" -eq 0 ]
