# Common functions of tests in emulated guests. tools/test-scx and tools/test-pair source this file,
# in the root of the sources, with their name in `test`.
#
# Exit codes: 0 success, 1 failure, 77 the test cannot be run on this machine (one line gives the
# reason). DAIKO_GUEST_KERNEL is the version of the guest's kernel, by default Debian's newest cloud
# kernel.
#
# Nothing on this machine is changed: kernel packages are fetched with separate settings of apt, and
# kept below cargo's target folder.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
work=$CARGO_TARGET_DIR/guest/$test
kernels=$CARGO_TARGET_DIR/guest/kernels
# The modules for all tests.
modules=(net/core/failover drivers/net/{net_failover,virtio_net} drivers/nvdimm/{libnvdimm,nd_btt,nd_pmem,nd_e820})
# Faults of emulators, in the words of the guest's kernel, after which a part is tried again: code
# that the kernel patches while another CPU executes it, and CPUs that the host lets run too late.
# An init that ends by itself, as a shell does at an error of a script, is none.
faults='Kernel panic - not syncing: (Fatal exception|stack-protector|Attempted to kill init! exitcode=0x000000[0-9a-f]).*|Marking clocksource .tsc. as unstable.*|BUG: soft lockup.*|rcu: INFO: .* detected .*stalls.*'
tries=3

cannot() {
    echo "$test: skipped: $*" >&2
    exit 77
}

wrong() {
    echo "$test: $*" >&2
    exit 1
}

need() { # need PROGRAM PACKAGE
    command -v "$1" >/dev/null || cannot "$1 is missing: sudo apt install $2"
}

check_emulator() {
    [[ $(uname -m) == x86_64 ]] || cannot "the guest is for x86_64, this machine is $(uname -m)"
    need qemu-system-x86_64 qemu-system-x86
    need busybox busybox-static
    need cpio cpio
    need xz xz-utils
    need strip binutils
}

# Prints the mirror that this machine uses.
mirror() {
    awk '/^(deb|URIs:)/ { for (i = 2; i <= NF; i++) if (!found && $i ~ "^https?://.*/debian/?$") found = $i }
         END { print found ? found : "http://deb.debian.org/debian" }' \
        /dev/null /etc/apt/sources.list.d/* $(ls /etc/apt/sources.list 2>/dev/null)
}

# Makes apt work in a separate folder, on the one suite that has such kernels.
private_apt() {
    local apt=$kernels/apt keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [[ -r $keys ]] || cannot "$keys is missing: sudo apt install debian-archive-keyring"
    need apt-get apt
    need dpkg-deb dpkg
    mkdir -p "$apt"/{lists/partial,cache/archives/partial,none}
    touch "$apt/status"
    echo "deb [signed-by=$keys] $(mirror) trixie-backports main" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<END
Dir::State "$apt"; Dir::State::lists "$apt/lists"; Dir::State::status "$apt/status"; Dir::Cache "$apt/cache";
Dir::Etc::sourcelist "$apt/sources.list"; Dir::Etc::sourceparts "$apt/none";
Dir::Etc::preferences "$apt/none/preferences"; Dir::Etc::preferencesparts "$apt/none";
APT::Architecture "amd64"; APT::Architectures { "amd64"; }; Acquire::Languages "none"; APT::Sandbox::User "root";
END
    export APT_CONFIG=$apt/apt.conf
}

newest_kernel() {
    apt-cache pkgnames linux-modules- | grep -E '^linux-modules-[0-9][^ ]*-cloud-amd64$' | sort -V | tail -n 1 |
        sed 's/^linux-modules-//'
}

# Fetches the kernel; sets kernel to a folder with vmlinuz, its configuration and the modules.
fetch_kernel() {
    local version=${DAIKO_GUEST_KERNEL:-} said
    mkdir -p "$kernels"
    kernel=$(find "$kernels" -maxdepth 1 -name "kernel-${version:-*}" | sort -V | tail -n 1)
    [[ -z $kernel ]] || return 0
    private_apt
    said=$(apt-get -q update 2>&1) && ! grep -qE '^(E|Err|W: Failed)' <<<"$said" ||
        cannot "Debian's packages cannot be had: $(grep -E '^(E|W|Err)' <<<"$said" | head -n 1)"
    version=${version:-$(newest_kernel)}
    [[ -n $version ]] || cannot 'trixie-backports has no kernel linux-modules-*-cloud-amd64'
    rm -rf "$kernels/partial"
    mkdir -p "$kernels/partial/packages" "$kernels/partial/root" "$kernels/partial/kernel"
    said=$(cd "$kernels/partial/packages" && apt-get -q download "linux-binary-$version" "linux-modules-$version" 2>&1) ||
        cannot "the kernel $version cannot be had: $(grep -E '^(E|W|Err)' <<<"$said" | head -n 1)"
    for package in "$kernels"/partial/packages/*.deb; do dpkg-deb -x "$package" "$kernels/partial/root"; done
    take_from_packages "$version"
    kernel=$kernels/kernel-$version
    mv "$kernels/partial/kernel" "$kernel"
    rm -rf "$kernels/partial"
}

take_from_packages() {
    local partial=$kernels/partial folder module
    folder=$partial/root/usr/lib/modules/$1
    for module in "${modules[@]}"; do
        xz -dc "$folder/kernel/$module.ko.xz" >"$partial/kernel/${module##*/}.ko"
    done
    cp "$(find "$partial/root" -name 'vmlinuz*' -type f | head -n 1)" "$partial/kernel/vmlinuz"
    # Not all packages have a configuration.
    find "$partial/root" -type f \( -name config -o -name "config-$1" \) -exec cp {} "$partial/kernel/config" \;
}

# begin_initramfs FOLDER PROGRAM..: sets guest to the folder of the guest's root file system, with
# these programs and the files of FOLDER.
begin_initramfs() {
    local folder=$1 program library
    shift
    guest=$work/initramfs
    rm -rf "$guest"
    mkdir -p "$guest"/{bin,etc,proc,sys,dev,modules,tmp}
    cp "$(command -v busybox)" "$guest/bin/busybox"
    cp "$kernel"/*.ko "$guest/modules"
    cp "$folder"/* "$guest"
    install -m 755 tools/guest-init "$guest/init"
    for program in "$@"; do
        strip -o "$guest/bin/${program##*/}" "$program"
        for library in $(ldd "$program" | grep -oE '/[^ :]+ \(' | tr -d '( '); do
            mkdir -p "$guest$(dirname "$library")"
            cp -L "$library" "$guest$library"
        done
    done
}

end_initramfs() {
    (cd "$guest" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs.gz"
}

# emulate SECONDS PART WORDS OPTION..: runs the part in a guest of four CPUs, with this time limit.
# Its console is standard output.
emulate() {
    exec timeout --foreground "$1" qemu-system-x86_64 -nodefaults -display none -no-reboot -accel tcg,thread=multi -m 1G -serial stdio \
        -kernel "$kernel/vmlinuz" -initrd "$work/initramfs.gz" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off daiko.part=$2 $3" "${@:4}" </dev/null
}

# Runs a part with the test's own `boot PART`, again after a fault of the emulator. Its output is in
# $work/PART.log, that of a try with a fault in $work/PART.fault-TRY.log.
part() { # part NAME
    local log=$work/$1.log try emulator fault
    # The guest ends with the test.
    trap 'kill "$emulator" 2>/dev/null || true; echo "$test: interrupted" >&2; exit 130' INT TERM HUP
    for ((try = 1; try <= tries; try++)); do
        : >"$log"
        boot "$1" >>"$log" 2>&1 &
        emulator=$!
        # In the background as well, so that signals are handled during the wait.
        tail -f -n +1 -s 0.2 --pid="$emulator" "$log" | sed -u 's/\r$//' | grep --line-buffered '^@' &
        wait $! || true
        wait "$emulator" || true
        sed -i 's/\r$//' "$log"
        if grep -q '^@ done' "$log"; then return; fi
        fault=$(grep -m 1 -oE "$faults" "$log") || break
        cp "$log" "$work/$1.fault-$try.log"
        if ((try < tries)); then echo "a fault of the emulator ($fault); once more" >&2; fi
    done
    if grep -q '^@ failed' "$log"; then wrong "$1: $(grep '^@ failed' "$log" | head -n 1 | cut -c10-); all of it: $log"; fi
    grep -q '^@ booted' "$log" || wrong "the guest does not boot: $(tail -n 1 "$log"); all of it: $log"
    wrong "$1: the guest did not come to an end; all of it: $log"
}
