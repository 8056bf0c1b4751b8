//! A protocol as a POSIX shell script, for Linux and FreeBSD.

use std::fmt::Write;

use super::fio_options::{fio_options_of, status_interval, step_name};
use super::{Script, Step};

/// Returns any text as a quoted word for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

pub(super) fn render(script: &Script) -> String {
    let mut text = "#!/bin/sh\n".to_owned();
    for line in script.header() {
        let _ = writeln!(text, "# {line}");
    }
    let results = script.results_directory();
    let _ = writeln!(
        text,
        "# Run: sh THIS_SCRIPT [TARGET]{}; results are written to {results}/ here.\n\
         # Then, where ssdlab is: ssdlab import {results}/*.json\n\nset -eu\n",
        if script.is_device { " --destroy-data" } else { "" }
    );
    let _ = writeln!(text, "target={}", quoted(&script.target));
    let _ = writeln!(text, "space={}", script.space.bytes());
    let _ = writeln!(text, "results={}", quoted(&results));
    let _ = writeln!(text, "description={}\n", quoted(&script.description()));
    text.push_str(COMMON);
    text.push_str(if script.is_device { DEVICE } else { FILE });
    if script.has_trim_step() && !script.is_device {
        text.push_str(PUNCH_HOLE);
    }
    text.push_str(RUN);
    text.push('\n');
    for (number, step) in script.steps.iter().enumerate() {
        push_step(&mut text, number, step);
    }
    text.push_str("\nsay \"Done. Where ssdlab is: ssdlab import $results/*.json\"\n");
    text
}

fn push_step(text: &mut String, number: usize, step: &Step) {
    match step {
        Step::Work { phase, of_peak } => {
            let name = step_name(number, phase);
            let deep = if phase.depth > 1 { "$deep" } else { "psync" };
            let _ = write!(text, "work {name} \"{deep}\"");
            for (option, value) in fio_options_of(phase, None) {
                let _ = write!(text, " \\\n    --{option}={value}");
            }
            if let Some(seconds) = status_interval(phase) {
                let _ = write!(text, " \\\n    --status-interval={seconds}");
            }
            if let Some((peak, share)) = of_peak {
                let reads = f64::from(phase.mix.read_percent) / 100.0;
                let (read, write) = (share * reads, share * (1.0 - reads));
                let _ = write!(
                    text,
                    " \\\n    \"--rate_iops=$(share_of {:03} {read:.4}),$(share_of {:03} {write:.4})\"",
                    peak + 1,
                    peak + 1
                );
            }
            text.push('\n');
        }
        Step::Flush => text.push_str("[ ! -e \"$target\" ] || sync \"$target\"\n"),
        Step::Rest(time) => {
            let _ = writeln!(text, "rest {}", time.nanos().div_ceil(1_000_000_000));
        }
        Step::Trim(region) => {
            let _ = writeln!(text, "trim {} {}", region.offset.bytes(), region.length.bytes());
        }
        Step::Purge => text.push_str("purge\n"),
    }
}

const COMMON: &str = r#"say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
refuse() { say "refused: $*"; exit 3; }

# What a device needs to be told, and a file does not: not every form uses all of these.
# shellcheck disable=SC2034
destroy=no deep=posixaio
for argument in "$@"; do
    case $argument in
        # shellcheck disable=SC2034
        --destroy-data) destroy=yes ;;
        -*) die "unknown option: $argument" ;;
        *) target=$argument ;;
    esac
done
case $target in
    *:*) die "fio treats a colon in a name as a separator; use a name without one, not $target" ;;
esac
command -v fio >/dev/null 2>&1 || die "fio is not installed"
system=$(uname -s)

# The engine for more than one request at a time.
[ "$system" != Linux ] || deep=libaio

[ ! -e "$results" ] || die "$results already exists; move it away first"
"#;

const FILE: &str = r#"
# A file of our own, which must not be there yet, and is removed however this ends.
if [ -e "$target" ] || [ -L "$target" ]; then
    refuse "$target exists; name a file that does not"
fi
# POSIX has no other name for free space than the fourth column of df, in KiB.
free=$(df -Pk "$(dirname "$target")" | awk 'NR == 2 { print $4 }')
[ "$((free / 1024 - 1024))" -ge "$((space / 1048576))" ] ||
    die "not enough space: the file and a reserve of 1 GiB do not fit"
cleanup() { rm -f "$target"; }
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

purge() { rm -f "$target"; }
"#;

const PUNCH_HOLE: &str = r#"
# A part of the file is given back to the file system, which trims it (mounted with discard, or by
# fstrim now and then). Told before anything is written.
[ "$system" = Linux ] || die "a part of a file cannot be trimmed on $system; use a device"
command -v fallocate >/dev/null 2>&1 || die "fallocate is missing"

trim() { fallocate --punch-hole --offset "$1" --length "$2" "$target"; }
"#;

const DEVICE: &str = r#"
# A device loses all it holds: nothing may use it, and the user has to say so twice.
[ "$(id -u)" -eq 0 ] || die "a device is written to by root only"
case $system in
    Linux)
        [ -b "$target" ] || die "$target is no block device"
        target=$(readlink -f "$target")
        command -v lsblk >/dev/null 2>&1 || die "lsblk is missing: use of the device cannot be checked"
        # The device itself and its partitions, none of them mounted, in use as swap or held.
        if lsblk -nro MOUNTPOINT "$target" | grep -q .; then
            refuse "$target or a partition of it is mounted or is swap"
        fi
        if awk '{ print $1 }' /proc/mounts /proc/swaps | grep -q -x -F "$target"; then
            refuse "$target is mounted or is swap"
        fi
        if lsblk -nro TYPE "$target" | grep -v -x -e disk -e part -e loop | grep -q .; then
            refuse "something is built on $target (RAID, LVM, encryption)"
        fi
        for name in $(lsblk -nro KNAME "$target"); do
            # Of the devices of a btrfs, the list of mounts names one.
            for member in /sys/fs/btrfs/*/devices/"$name"; do
                [ ! -e "$member" ] || refuse "$target or a partition of it is part of a mounted btrfs"
            done
            if cat /sys/block/loop*/loop/backing_file 2>/dev/null | grep -q -x -F "/dev/$name"; then
                refuse "a loop device uses $target or a partition of it"
            fi
        done
        if command -v zpool >/dev/null 2>&1 &&
            zpool status -LP 2>/dev/null | grep -q -F "$target"; then
            refuse "$target is part of a pool"
        fi
        size=$(blockdev --getsize64 "$target")
        ;;
    FreeBSD)
        [ -c "$target" ] || die "$target is no device"
        if { mount -p; swapinfo; } | awk '{ print $1 }' | grep -q -F "$target"; then
            refuse "$target is mounted or is swap"
        fi
        if command -v zpool >/dev/null 2>&1 &&
            zpool status -P 2>/dev/null | grep -q -F "$target"; then
            refuse "$target is part of a pool"
        fi
        size=$(diskinfo "$target" | awk '{ print $3 }')
        ;;
    *) die "devices are written to on Linux and FreeBSD only; use a file" ;;
esac
[ "$size" -ge "$space" ] || die "$target holds $size bytes, and $space are needed"
[ "$destroy" = yes ] || refuse "ALL DATA on $target would be lost; add --destroy-data to confirm"
printf 'ALL DATA on %s (%s bytes) will be lost. Type its name to go on: ' "$target" "$size" >&2
read -r answer || answer=
[ "$answer" = "$target" ] || refuse "not confirmed; nothing was written"

purge() { trim 0 "$size"; }

trim() {
    case $system in
        # It was confirmed: on a terminal blkdiscard would ask for --force where it finds a file
        # system, and with that not look whether the device is in use.
        Linux) blkdiscard --offset "$1" --length "$2" "$target" </dev/null ;;
        *) command trim -f -o "$1" -l "$2" "$target" ;;
    esac
}
"#;

const RUN: &str = r#"
mkdir "$results"

rest() {
    say "rest of $1 s"
    sleep "$1"
}

# work NAME ENGINE OPTION...
work() {
    name=$1
    engine=$2
    shift 2
    say "$name"
    fio --name="$name" --description="$description" --filename="$target" --ioengine="$engine" \
        --direct=1 --output-format=json+ --output="$results/$name.json" "$@"
}

# share_of STEP SHARE: requests per second, as a share of what that step has reached.
share_of() {
    awk -v share="$2" '
        /^{/ { sum = 0 }
        /"iops" :/ { gsub(/[^0-9.]/, "", $3); sum += $3 }
        END { printf "%d", (sum * share < 1) ? 1 : sum * share }
    ' "$results/$1"-*.json
}
"#;
