"""The stacks that the guest can build (stacks.sh), and where TRIM stops in each.

This table is what the kernel's documentation leads one to expect. It is held against the counters
of the drives as doctor is, so that a guest that did not do what it should is not taken for a
finding.
"""

# What is trimmed stops nowhere.
WORKS = None

# Name, and where TRIM stops: WORKS, a name of the layer, or 'fs' for the file system.
STACKS = {
    "plain-virtio": WORKS,
    "plain-nvme": WORKS,
    "plain-ahci": WORKS,
    "plain-scsi": WORKS,
    "misaligned": WORKS,
    "usb-storage-full": "usb1",
    "usb-storage-unmap": WORKS,
    "usb-uas": WORKS,
    "xfs": WORKS,
    "minix": "fs",
    "ext4-discard": WORKS,
    "ext4-nobarrier": WORKS,
    "btrfs-single": WORKS,
    "btrfs-raid1": WORKS,
    "btrfs-raid1-usb": "usb1",
    "lvm-linear": WORKS,
    "lvm-striped": WORKS,
    "lvm-raid1": WORKS,
    "lvm-thin": WORKS,
    "lvm-thin-nopassdown": "vg-lv",
    "md-raid0": WORKS,
    "md-raid1": WORKS,
    "md-raid1-usb": "usb1",
    "md-raid5": "md0",
    "md-raid5-safely": WORKS,
    "md-raid6": "md0",
    "md-raid10": WORKS,
    "luks": "crypt",
    "luks-discards": WORKS,
    "lvm-on-luks": "crypt",
    "lvm-on-luks-discards": WORKS,
    "luks-on-lvm": "crypt",
    "luks-on-lvm-discards": WORKS,
    "md-luks-lvm": "crypt",
    "md-luks-lvm-discards": WORKS,
    "loop": "loop0",
    "loop-discard": WORKS,
    "zram": WORKS,
}

# Where no flush is sent when a file is made durable. A drive in memory is asked for none.
NO_FLUSHES = {"ext4-nobarrier"}
IN_MEMORY = {"zram"}
