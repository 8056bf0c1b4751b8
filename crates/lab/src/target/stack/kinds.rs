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

const CHUNK: StackOption = option(
    "chunk",
    "512K",
    "what goes to one member before the next has its turn (mdadm: 512 KiB)",
);
const TRIM_PASSED: StackOption = option("trim", "on", "whether trim is passed on: on or off");
const READS: StackOption = option(
    "reads",
    "free-first",
    "which copy is read: free-first (fewest requests under way), round-robin or first",
);
const SYNC_COPY: StackOption = option(
    "sync",
    "full",
    "full writes all of each second copy before the run, and so uses up its over-provisioning, as mdadm \
     does; none does not (--assume-clean)",
);

pub(super) static STACKS: [StackKind; 6] = [
    StackKind {
        name: "raid0",
        summary: "chunks in turn over the members",
        members: "2 or more",
        options: &[CHUNK, TRIM_PASSED],
    },
    StackKind {
        name: "raid1",
        summary: "everything on every member; a write waits for the last of them",
        members: "2 or more",
        options: &[READS, SYNC_COPY, TRIM_PASSED],
    },
    StackKind {
        name: "raid10",
        summary: "chunks in turn over pairs of members that hold the same",
        members: "4, 6, 8 ...",
        options: &[CHUNK, READS, SYNC_COPY, TRIM_PASSED],
    },
    StackKind {
        name: "raid5",
        summary: "chunks in turn, one of each stripe the parity of the others, rotating",
        members: "3 or more",
        options: &[
            CHUNK,
            option(
                "sync",
                "full",
                "full writes all of the last member before the run; none does not",
            ),
            option(
                "trim",
                "off",
                "whether trim is passed on: md does only where it is told that trimmed sectors \
                 read as zeros",
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
                "swallow: flush and FUA are answered at once, as by the enclosure that was \
                 published; or pass",
            ),
            option("trim", "off", "whether trim is passed on; most bridges drop it"),
            option("mb_per_second", "400", "rate of the link (USB 5 Gbit/s; assumed)"),
            option("per_command", "20us", "how long the bridge is busy with a command (assumed)"),
            option("protocol", "uas", "uas: many commands under way; bot: one at a time"),
        ],
    },
    StackKind {
        name: "crypt",
        summary: "a drive under encryption by the host (dm-crypt)",
        members: "1",
        options: &[
            option("trim", "off", "whether trim is passed on (discards are allowed)"),
            option("mb_per_second", "2000", "what one processor encrypts: AES-XTS (assumed)"),
            option("processors", "4", "how many encrypt (assumed)"),
        ],
    },
];

/// Returns all kinds of stacks.
pub fn stacks() -> &'static [StackKind] {
    &STACKS
}
