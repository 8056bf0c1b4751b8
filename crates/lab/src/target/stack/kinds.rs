//! The kinds of stacks there are, with their options.

/// A kind of stack, to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackKind {
    /// What it is called in targets.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// How many members it takes.
    pub members: &'static str,
    /// Its options.
    pub options: &'static [StackOption],
}

/// An option of a stack, to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackOption {
    /// Its name.
    pub name: &'static str,
    /// Its value where none is given.
    pub default: &'static str,
    /// What it does, with the values it takes.
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

/// The kinds of stacks there are.
pub fn stacks() -> &'static [StackKind] {
    &STACKS
}
