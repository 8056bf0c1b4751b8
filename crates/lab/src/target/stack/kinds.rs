//! The kinds of stacks, with their options.

/// Description of a kind of stack, for lists and help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackKind {
    /// Name in targets.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Number of members, in words.
    pub members: &'static str,
    /// Options.
    pub options: &'static [StackOption],
}

/// Description of an option of a stack, for lists and help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackOption {
    /// Name.
    pub name: &'static str,
    /// Default value.
    pub default: &'static str,
    /// Description, with the values that it takes.
    pub help: &'static str,
}

const fn option(name: &'static str, default: &'static str, help: &'static str) -> StackOption {
    StackOption { name, default, help }
}

const CHUNK: StackOption =
    option("chunk", "512K", "data on one member before the next member follows (mdadm: 512 KiB)");
const TRIM_PASSED: StackOption = option("trim", "on", "trim to the members: on (passed on) or off");
const READS: StackOption = option(
    "reads",
    "free-first",
    "copy that a read uses: free-first (fewest requests in flight), round-robin or first",
);
const SYNC_COPY: StackOption = option(
    "sync",
    "full",
    "initial synchronisation: full (writes each second copy whole before the run, which uses up \
     its over-provisioning, as mdadm does) or none (--assume-clean)",
);

pub(super) static STACKS: [StackKind; 6] = [
    StackKind {
        name: "raid0",
        summary: "chunks striped over the members",
        members: "2 or more",
        options: &[CHUNK, TRIM_PASSED],
    },
    StackKind {
        name: "raid1",
        summary: "mirror: all data on every member; a write waits for the slowest",
        members: "2 or more",
        options: &[READS, SYNC_COPY, TRIM_PASSED],
    },
    StackKind {
        name: "raid10",
        summary: "chunks striped over mirrored pairs of members",
        members: "4, 6, 8 ...",
        options: &[CHUNK, READS, SYNC_COPY, TRIM_PASSED],
    },
    StackKind {
        name: "raid5",
        summary: "chunks striped over the members, with rotating parity",
        members: "3 or more",
        options: &[
            CHUNK,
            option(
                "sync",
                "full",
                "initial synchronisation: full (writes the last member whole before the run) or \
                 none",
            ),
            option(
                "trim",
                "off",
                "trim to the members: on or off; md passes it on only if told that trimmed \
                 sectors read as zeros",
            ),
        ],
    },
    StackKind {
        name: "usb",
        summary: "a drive in a USB enclosure",
        members: "1",
        options: &[
            option(
                "flush",
                "swallow",
                "flush and FUA: swallow (answered at once, as the published enclosure does) or \
                 pass",
            ),
            option("trim", "off", "trim to the drive: on or off; most bridges drop it"),
            option("mb_per_second", "400", "rate of the link (USB 5 Gbit/s; assumed)"),
            option("per_command", "20us", "time that a command occupies the bridge (assumed)"),
            option("protocol", "uas", "uas (many commands in flight) or bot (one at a time)"),
        ],
    },
    StackKind {
        name: "crypt",
        summary: "a drive under encryption by the host (dm-crypt)",
        members: "1",
        options: &[
            option("trim", "off", "trim to the drive: on (allow_discards) or off"),
            option("mb_per_second", "2000", "rate of one processor with AES-XTS (assumed)"),
            option("processors", "4", "number of processors that encrypt (assumed)"),
        ],
    },
];

/// Returns all kinds of stacks.
pub fn stacks() -> &'static [StackKind] {
    &STACKS
}
