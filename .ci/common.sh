# Shared by .ci/run and its parts: source it from the root of the checkout.
# shellcheck shell=bash

export CARGO_TERM_COLOR=never
# A machine of CI has little room on its disk, and builds once: nothing is kept for the next build, and panics
# name their line without debug information.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none CARGO_PROFILE_TEST_DEBUG=none CARGO_PROFILE_RELEASE_DEBUG=none
# What is released is optimised as much as it can be; here it is only tried, and need not be fast: without
# optimisation it takes less than half of what level 1 takes.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=0
export CARGO_PROFILE_PLAYGROUND_OPT_LEVEL=3 CARGO_PROFILE_PLAYGROUND_LTO=off CARGO_PROFILE_PLAYGROUND_CODEGEN_UNITS=16
# dist/build sets it, and C code is compiled anew where it changes: so every part has it.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2> /dev/null || date +%s)
export SOURCE_DATE_EPOCH
target=${CARGO_TARGET_DIR:-$PWD/target}

# Everything that a part makes lies in its places, and every process that it starts carries SSDLAB_CI in its
# environment: so `left_behind` can tell what is ours.
if [[ -z ${SSDLAB_CI:-} ]]; then
    TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/ci.XXXXXX")
    SSDLAB_CI=$TMPDIR
    export TMPDIR SSDLAB_CI
    trap 'clean_up' EXIT
fi

places=("$SSDLAB_CI")

step() {
    local free
    free=$(df -h --output=avail "$PWD" | tail -n 1)
    printf '\n== %s (%d:%02d, %s free)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)) "${free// /}"
}

# install COMMAND PACKAGE...: installs the packages where the command is missing.
install() {
    local command=$1
    shift
    command -v "$command" > /dev/null && return
    apt_install "$@" || echo "$command is missing and cannot be installed here (package $*)" >&2
}

apt_install() {
    [[ $EUID -eq 0 ]] && command -v apt-get > /dev/null || return 1
    [[ -e $SSDLAB_CI/updated ]] || apt-get update -q || true
    touch "$SSDLAB_CI/updated"
    # No service is started: in run level 1 none would be.
    # Parts that run side by side wait for one another.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@"
}

# Prints the name of a Python of 3.10 or later with venv; nothing where there is none.
find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11 python3.10; do
        # Some machines have names that lead to no interpreter.
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
            echo "$candidate"
            break
        fi
    done
}

is_ours() {
    local place
    for place in "${places[@]}"; do
        [[ $1 != "$place"/* ]] || return 0
    done
    return 1
}

our_mounts() {
    local point
    while read -r _ point _; do
        point=$(printf '%b' "$point")
        if is_ours "$point"; then
            printf '%s\n' "$point"
        fi
    done < <(tac /proc/self/mounts)
}

our_loops() {
    local file
    for file in /sys/block/loop*/loop/backing_file; do
        if [[ -e $file ]] && is_ours "$(cat "$file")"; then
            file=${file#/sys/block/}
            printf '/dev/%s\n' "${file%%/*}"
        fi
    done
}

# Processes that outlived the command that started them: those of ours that left this session, or
# whose parent has ended.
our_processes() {
    local directory pid stat parent session ours
    read -r stat < /proc/$$/stat
    read -r _ _ _ ours _ <<< "${stat##*) }"
    for directory in /proc/[0-9]*; do
        pid=${directory#/proc/}
        { read -r stat < "$directory/stat"; } 2> /dev/null || continue
        read -r _ parent _ session _ <<< "${stat##*) }"
        [[ $session -ne $ours || $parent -eq 1 ]] || continue
        if grep -qzxF "SSDLAB_CI=$SSDLAB_CI" "$directory/environ" 2> /dev/null; then
            printf '%s %s\n' "$pid" "$(tr '\0' ' ' 2> /dev/null < "$directory/cmdline")"
        fi
    done
}

# Says what of ours is still mounted, bound or running, and takes it away; fails if there was any.
left_behind() {
    local what outcome=0
    # A process that was told to end may need a moment for it.
    for _ in {1..20}; do
        [[ -n $(our_processes) ]] || break
        sleep 0.3
    done
    while read -r what; do
        printf '!! LEFT BEHIND: process %s\n' "$what"
        kill "${what%% *}" 2> /dev/null || true
        outcome=1
    done < <(our_processes)
    while read -r what; do
        printf '!! LEFT BEHIND: mount %s\n' "$what"
        umount "$what" || umount -l "$what" || true
        outcome=1
    done < <(our_mounts)
    while read -r what; do
        printf '!! LEFT BEHIND: loop device %s\n' "$what"
        losetup -d "$what" || true
        outcome=1
    done < <(our_loops)
    return $outcome
}

clean_up() {
    local outcome=$?
    left_behind > "$SSDLAB_CI/left" || cat "$SSDLAB_CI/left" >&2
    rm -rf "$SSDLAB_CI"
    exit $outcome
}

# told WORD FILE: prints each line of FILE that begins with "WORD: ", once.
told() {
    if grep -q "^$1: " "$2"; then
        printf '\n!! %s here:\n' "$1"
        sed -n "s/^$1: /!!   /p" "$2" | sort -u
    fi
}
