# What the guest and the host say to each other: lines on a virtio port. The guest begins.
#
#   NEXT                  which stack is next? The answer is its name, 'tree', 'fixes' or 'off'
#   MARK WORD DRIVE..     the host notes the counters of the drives; the answer is 'ok'
#   SAY KEY VALUE..       a fact, for the host's notes
#   FILE NAME BYTES       followed by the bytes
#   FAILED WORDS          the stack could not be built as it should be
#   DONE                  the stack has been taken down

# Finds the port and opens it as descriptor 3. Ports appear some time after their driver.
find_port() {
    local port
    while true; do
        for port in /sys/class/virtio-ports/*; do
            if [ "$(cat "$port/name" 2> /dev/null)" = ssdlab.orders ] &&
                [ -e "/dev/${port##*/}" ]; then
                exec 3<> "/dev/${port##*/}"
                return
            fi
        done
        sleep 0.1
    done
}

say() {
    echo "$@" >&3
}

ask() {
    local answer
    say "$@"
    read -r answer <&3
    echo "$answer"
}

# mark WORD DRIVE..: a drive in memory here is named with the pages that it was told to forget.
mark() {
    local word=$1
    shift
    if [ "$*" = zram0 ]; then
        set -- "zram0=$(awk '{ print $4 }' /sys/block/zram0/io_stat)"
    fi
    ask MARK "$word" "$@" > /dev/null
}

# send NAME FILE
send() {
    say FILE "$1" "$(stat -c %s "$2")"
    cat "$2" >&3
}

# The serial number of a disk, where its bus keeps it.
serial_of() {
    local sys=/sys/block/$1 up
    if [ -s "$sys/serial" ]; then
        cat "$sys/serial"
    elif [ -s "$sys/device/serial" ]; then
        cat "$sys/device/serial"
    elif [ -e "$sys/device/vpd_pg80" ]; then
        tail -c +5 "$sys/device/vpd_pg80"
    else
        # usb-storage asks for no such page: the USB device has the number.
        up=$(readlink -f "$sys/device")
        while [ "$up" != / ]; do
            [ -s "$up/serial" ] && cat "$up/serial" && return
            up=${up%/*}
            up=${up:-/}
        done
    fi
}

# Waits for the drives named in /drives, and sets dev_NAME and kernel_NAME for each.
find_drives() {
    local name disk serial missing
    while true; do
        for disk in $(ls /sys/block); do
            serial=$(serial_of "$disk" | tr -d ' \0')
            for name in $(cat /drives); do
                [ "$serial" = "$name" ] && eval "dev_$name=/dev/$disk"
            done
        done
        missing=
        for name in $(cat /drives); do
            eval "[ -b \"\$dev_$name\" ]" || missing="$missing $name"
        done
        [ -z "$missing" ] && return
        [ "$missing" = "$waited" ] || echo "waiting for$missing"
        waited=$missing
        sleep 0.2
    done
}
