# The stacks. Each is a function build_NAME that leaves a block device in $top (or mounts by
# itself) and describes itself:
#
#   drives   the simulated drives below it
#   top      the device that a file system is made on
#   layers   block devices from the top down to the drives; blkdiscard is tried on each
#   fs       the file system, and fs_devices if it lies on several devices; options for mount
#   settle   what has to be done after a trim, so that it can be seen
#   also     other names of where TRIM stops that are as right
#   mend     what lets pass what was held back, if it needs no setting up anew
#   prepare  what has to be done before blkdiscard, so that there is something to discard

MNT=/mnt/top
# Where blkdiscard is tried: behind every layer's own records.
OFFSET=$((32 << 20))
LENGTH=$((16 << 20))
FILE_MIB=24

# A command that has to succeed; what it says goes with the complaint.
must() {
    if ! "$@" > /tmp/said 2>&1 < /dev/null; then
        say FAILED "$*: $(tr '\n' ' ' < /tmp/said)"
        failed=1
        return 1
    fi
}

# one_partition DRIVE [FIRST SECTOR]: makes it and names it.
one_partition() {
    local device first=${2:-2048}
    eval "device=\$dev_$1"
    echo "label: dos
start=$first, size=655360, type=83" > /tmp/table
    if ! sfdisk -q "$device" < /tmp/table > /tmp/said 2>&1; then
        say FAILED "sfdisk $device: $(tr '\n' ' ' < /tmp/said)"
        failed=1
    fi
    case $device in
    *[0-9]) partition=${device}p1 ;;
    *) partition=${device}1 ;;
    esac
    parts="$parts $partition"
    while [ ! -b "$partition" ]; do sleep 0.05; done
}

# partitions DRIVE..: one on each; $parts names them, $below them and their drives.
partitions() {
    local name device
    drives=$*
    parts=
    for name in "$@"; do one_partition "$name"; done
    parts=${parts# }
    below=$parts
    for name in "$@"; do
        eval "device=\$dev_$name"
        below="$below $device"
    done
}

plain() {
    partitions "$1"
    top=$parts layers=$below
}

build_plain_virtio() { plain virtio1; }
build_plain_nvme() { plain nvme1; }
build_plain_ahci() { plain ahci1; }
build_plain_scsi() { plain scsi1; }
build_usb_uas() { plain uas1; }
build_usb_storage_full() { plain usb1; }

# Set when there are partitions: the setting may be lost when these are read again.
build_usb_storage_unmap() {
    plain usb1
    provisioning usb1 unmap
}

# What sd believes of a bridge, told otherwise.
provisioning() {
    local device file
    eval "device=\$dev_$1"
    for file in /sys/block/"${device##*/}"/device/scsi_disk/*/provisioning_mode; do
        echo "$2" > "$file"
    done
}

build_misaligned() {
    drives=virtio1 parts=
    one_partition virtio1 63
    top=$partition layers="$partition $dev_virtio1"
}

build_xfs() {
    plain virtio1
    fs=xfs
}

# Does not know FITRIM.
build_minix() {
    plain virtio1
    fs=minix
}

build_ext4_discard() {
    plain virtio1
    options=discard
    mkdir -p /run/systemd/system /etc/systemd/system/timers.target.wants /usr/lib/systemd/system
    printf '[Timer]\nOnCalendar=weekly\n\n[Install]\nWantedBy=timers.target\n' \
        > /usr/lib/systemd/system/fstrim.timer
    ln -sf /usr/lib/systemd/system/fstrim.timer /etc/systemd/system/timers.target.wants/fstrim.timer
}

build_ext4_nobarrier() {
    plain virtio1
    options=nobarrier
}

build_btrfs_single() {
    plain nvme1
    fs=btrfs
}

build_btrfs_raid1() {
    partitions virtio1 nvme1
    fs=btrfs fs_devices="-d raid1 -m raid1 $parts" top=${parts%% *} layers=$below
}

# One of the two mirrors is not told.
build_btrfs_raid1_usb() {
    partitions virtio1 usb1
    fs=btrfs fs_devices="-d raid1 -m raid1 $parts" top=${parts%% *} layers=$below
}

# raid LEVEL DRIVE..
raid() {
    local level=$1
    shift
    partitions "$@"
    must mdadm --create /dev/md0 --run --metadata=1.2 --level="$level" --assume-clean --chunk=64 \
        --size=120M --raid-devices=$# $parts
    top=/dev/md0 layers="/dev/md0 $below"
}

# md's mirrors have no chunks.
mirror() {
    partitions "$@"
    must mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --assume-clean --bitmap=none \
        --raid-devices=$# $parts
    top=/dev/md0 layers="/dev/md0 $below"
}

# safely Y|N: whether md may discard on RAID 5 and 6.
safely() {
    modprobe raid456
    echo "$1" > /sys/module/raid456/parameters/devices_handle_discard_safely
}

build_md_raid0() { raid 0 virtio1 virtio2; }
build_md_raid1() { mirror virtio1 virtio2; }
build_md_raid10() { raid 10 virtio1 virtio2 virtio3 virtio4; }
build_md_raid1_usb() { mirror virtio1 usb1; }

build_md_raid5() {
    safely N
    raid 5 virtio1 virtio2 virtio3
}

build_md_raid6() {
    safely N
    raid 6 virtio1 virtio2 virtio3 virtio4
}

# Blocks of 4 KiB: with 1 KiB the kernel loses data when such an array is trimmed.
build_md_raid5_safely() {
    safely Y
    raid 5 virtio1 virtio2 virtio3
}

# group NAME DEVICE..
group() {
    local name=$1 device
    shift
    for device in "$@"; do must lvm pvcreate -qq -ff -y "$device"; done
    must lvm vgcreate -qq "$name" "$@"
}

# volume ARGUMENTS..: a logical volume lv in the group vg.
volume() {
    must lvm lvcreate -qq -y -Wn -Zn -n lv "$@" vg
    top=/dev/mapper/vg-lv
}

build_lvm_linear() {
    partitions virtio1 nvme1
    group vg $parts
    volume -l 100%FREE
    layers="$top $below"
}

build_lvm_striped() {
    partitions virtio1 virtio2
    group vg $parts
    volume -L 200M -i 2
    layers="$top $below"
}

build_lvm_raid1() {
    partitions virtio1 virtio2
    group vg $parts
    volume -L 200M --type raid1 --nosync
    layers="$top $below"
}

# thin HOW: what the pool does with discards.
thin() {
    plain virtio1
    group vg "$parts"
    must lvm lvcreate -qq -y -L 200M -c 64K --discards "$1" -T vg/pool
    must lvm lvcreate -qq -y -V 200M -T vg/pool -n lv
    top=/dev/mapper/vg-lv layers="$top $below" prepare=fill
}

build_lvm_thin() { thin passdown; }

# The pool is told what to do with discards, and the volume that is tried has it from there.
build_lvm_thin_nopassdown() {
    thin nopassdown
    also=$(names_of /dev/mapper/vg-pool-tpool)
}

# luks NAME DEVICE [--allow-discards]: a LUKS2 container; keys are derived quickly.
luks() {
    local name=$1 device=$2
    shift 2
    printf password > /tmp/key
    must cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
        --key-file /tmp/key "$device"
    must cryptsetup open --key-file /tmp/key "$@" "$device" "$name"
}

build_luks() {
    plain virtio1
    luks crypt "$top"
    top=/dev/mapper/crypt layers="$top $below"
}

build_luks_discards() {
    plain virtio1
    luks crypt "$top" --allow-discards
    top=/dev/mapper/crypt layers="$top $below"
}

build_lvm_on_luks() {
    plain virtio1
    luks crypt "$parts" $1
    group vg /dev/mapper/crypt
    volume -l 100%FREE
    layers="$top /dev/mapper/crypt $below"
}

build_lvm_on_luks_discards() { build_lvm_on_luks --allow-discards; }

build_luks_on_lvm() {
    plain nvme1
    group vg "$parts"
    volume -l 100%FREE
    luks crypt "$top" $1
    top=/dev/mapper/crypt layers="$top /dev/mapper/vg-lv $below"
}

build_luks_on_lvm_discards() { build_luks_on_lvm --allow-discards; }

build_md_luks_lvm() {
    mirror virtio1 virtio2
    luks crypt /dev/md0 $1
    group vg /dev/mapper/crypt
    volume -l 100%FREE
    layers="$top /dev/mapper/crypt /dev/md0 $below"
}

build_md_luks_lvm_discards() { build_md_luks_lvm --allow-discards; }

# A file on ext4 as a drive: its trims become holes in the file, and these reach the drive only
# when the file system below is trimmed, too.
loop() {
    plain virtio1
    mkdir -p /mnt/lower
    must mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$parts"
    must mount -t ext4 -o "$1" "$parts" /mnt/lower
    must dd if=/dev/zero of=/mnt/lower/image bs=1M count=100
    must losetup /dev/loop0 /mnt/lower/image
    trim_lower
    top=/dev/loop0 layers="$top $below" prepare=fill
}

build_loop() {
    loop nodiscard
    # The file system below keeps the holes to itself.
    mend=trim_lower also=/mnt/lower
}

build_loop_discard() {
    loop discard
    settle="freeze /mnt/lower"
}

trim_lower() {
    freeze /mnt/lower
    must fstrim /mnt/lower
}

build_zram() {
    must modprobe zram num_devices=1
    echo 256M > /sys/block/zram0/disksize
    drives=zram0 top=/dev/zram0 layers=/dev/zram0 prepare=fill
}

# Writes where blkdiscard will be tried, past the page cache.
fill() {
    must dd if=/dev/zero of="$1" bs=1M seek=$((OFFSET >> 20)) count=$((LENGTH >> 20)) \
        conv=notrunc oflag=direct
    sync
}

# Brings the file system's journal to its end, so that what was deleted is free.
freeze() {
    sync
    fsfreeze --freeze "$1" 2> /dev/null && fsfreeze --unfreeze "$1"
}

make_file_system() {
    case $fs in
    ext4) must mkfs.ext4 -q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$top" ;;
    xfs) must mkfs.xfs -q -f -K "$top" ;;
    btrfs) must mkfs.btrfs -q -f -K ${fs_devices:-$top} ;;
    minix) must mkfs.minix -3 "$top" ;;
    esac
    if [ "$fs" = btrfs ]; then
        must modprobe btrfs
        must btrfs device scan
    fi
    mkdir -p "$MNT"
    must mount -t "$fs" ${options:+-o "$options"} "$top" "$MNT"
}

# names_of LAYER: the names that a block device goes by.
names_of() {
    local kernel
    # Without udev, nodes of device-mapper are no links to the kernel's name.
    kernel=$(readlink -f "/sys/dev/block/$((0x$(stat -c %t "$1"))):$((0x$(stat -c %T "$1")))")
    kernel=${kernel##*/}
    echo "${1##*/}" "$kernel" "$(cat "/sys/block/$kernel/dm/name" 2> /dev/null)" \
        "$([ ! -e "/sys/block/$kernel/device" ] || serial_of "$kernel" | tr -d '\0')"
}

# What doctor says, as root and as nobody, and what it bases that on.
ask_doctor() {
    local target=$1
    [ -e /doctor ] || return 0
    ssdlab doctor --json "$target" > /tmp/root.json 2> /tmp/said
    say SAY doctor-root-code $?
    send doctor-root.json /tmp/root.json
    send doctor-root.err /tmp/said
    setpriv --reuid=65534 --regid=65534 --clear-groups ssdlab doctor --json "$target" \
        > /tmp/nobody.json 2> /tmp/said
    say SAY doctor-nobody-code $?
    send doctor-nobody.json /tmp/nobody.json
    send doctor-nobody.err /tmp/said
    [ -e /capture ] || return 0
    rm -f /tmp/capture.tar.gz
    if ssdlab doctor --capture /tmp/capture.tar.gz "$target" > /tmp/said 2>&1; then
        send capture.tar.gz /tmp/capture.tar.gz
    else
        say SAY no-capture "$(tr '\n' ' ' < /tmp/said)"
    fi
}

# Deletes a file, and lets the host see what of that arrives at the drives.
try_fstrim() {
    must dd if=/dev/zero of="$MNT/file" bs=1M count=$FILE_MIB
    freeze "$MNT"
    rm "$MNT/file"
    freeze "$MNT"
    mark deleted $drives
    fstrim "$MNT" > /tmp/said 2>&1
    say SAY fstrim-code $?
    say SAY fstrim "$(tr '\n' ' ' < /tmp/said)"
    [ -z "$settle" ] || $settle
    mark trimmed $drives
}

# Whether a file that is made durable is flushed to the drives.
try_fsync() {
    sync
    mark written $drives
    must dd if=/dev/zero of="$MNT/durable" bs=4k count=1 conv=fsync
    mark synced $drives
}

# Does what doctor is to advise, and lets the host see whether it helps.
try_mend() {
    [ -n "$mend" ] || return 0
    $mend
    mark mended $drives
}

# blkdiscard on each layer, from the top down, where nothing of the layers above is kept.
try_layers() {
    local layer
    for layer in $layers; do
        if [ -n "$prepare" ] && [ "$layer" = "$top" ]; then $prepare "$layer"; fi
        mark before $drives
        blkdiscard -f -o $OFFSET -l $LENGTH "$layer" > /tmp/said 2>&1
        say SAY blkdiscard-code $?
        say SAY blkdiscard "$(tr '\n' ' ' < /tmp/said)"
        if [ -n "$settle" ] && [ "$layer" = "$top" ]; then $settle; fi
        mark after $drives
        say LAYER "$(names_of "$layer")"
    done
}

# Takes everything down, whatever it was, from the top; several times, since layers change places.
take_down() {
    local round name
    umount "$MNT" 2> /dev/null
    for round in 1 2 3; do
        [ -e /dev/mapper/vg-lv ] && lvm vgchange -qq -an vg > /dev/null 2>&1
        [ -e /dev/mapper/crypt ] && cryptsetup close crypt > /dev/null 2>&1
        [ -e /dev/md0 ] && mdadm --stop /dev/md0 > /dev/null 2>&1
    done
    if [ -n "$(cat /sys/block/loop0/loop/backing_file 2> /dev/null)" ]; then
        losetup -d /dev/loop0
        umount /mnt/lower
    fi
    [ -e /sys/block/zram0 ] && echo 1 > /sys/block/zram0/reset
    rm -rf /etc/systemd /usr/lib/systemd
    for name in $drives; do
        [ "$name" = zram0 ] || wipe "$name"
        [ "$name" != usb1 ] || provisioning usb1 full
    done
}

# Forgets the partitions of a drive and what was in them.
wipe() {
    local device
    eval "device=\$dev_$1"
    must dd if=/dev/zero of="$device" bs=1M count=4 conv=notrunc oflag=direct
    blockdev --rereadpt "$device" 2> /dev/null
}

run_stack() {
    local function=build_$(echo "$1" | tr - _)
    drives= top= layers= fs=ext4 fs_devices= options= settle= mend= also= prepare= failed= parts= below=
    $function
    [ -z "$also" ] || say SAY also "$also"
    [ -n "$failed" ] || make_file_system
    if [ -z "$failed" ]; then
        try_fstrim
        try_fsync
        ask_doctor "$MNT"
        try_mend
        umount "$MNT"
        try_layers
    fi
    take_down
    say DONE
}

# A tree of files on a whole drive: written, a part deleted, the rest told to the host by a digest.
write_tree() {
    drives=virtio4 failed=
    must mkfs.ext4 -q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$dev_virtio4"
    must mount -t ext4 "$dev_virtio4" "$MNT"
    mkdir "$MNT/tree" "$MNT/gone"
    must cp -r /usr /lib /etc "$MNT/tree"
    must cp -r /usr "$MNT/gone"
    freeze "$MNT"
    rm -r "$MNT/gone"
    freeze "$MNT"
    mark before virtio4
    must fstrim "$MNT"
    mark after virtio4
    say TREE "$(cd "$MNT" && find tree -type f | sort | xargs sha256sum | sha256sum | cut -d' ' -f1)"
    must umount "$MNT"
    say DONE
}
