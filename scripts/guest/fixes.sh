# What doctor can mend, mended here, where nobody minds. sysctl is the real one. There is no systemd:
# the program systemctl notes how it was called, and does with the link what systemd's would.

UNIT=fstrim.timer
UNITS=/usr/lib/systemd/system
WANTED=/etc/systemd/system/timers.target.wants
CALLS=/tmp/calls
SETTINGS=/etc/sysctl.d/90-ssdlab-swappiness.conf

make_systemctl() {
    mkdir -p /run/systemd/system $UNITS $WANTED
    printf '[Timer]\nOnCalendar=weekly\n\n[Install]\nWantedBy=timers.target\n' > $UNITS/$UNIT
    printf '[Service]\nType=oneshot\nExecStart=/sbin/fstrim --fstab --verbose\n' > $UNITS/fstrim.service
    cat > /usr/bin/systemctl << END
#!/bin/sh
echo "systemctl \$*" >> $CALLS
if [ -e /tmp/no-bus ]; then
    echo "Failed to connect to bus" >&2
    exit 1
fi
case "\$1 \$2" in
'enable --now') ln -sf $UNITS/\$3 $WANTED/\$3 ;;
'disable --now') rm -f $WANTED/\$3 ;;
*) exit 1 ;;
esac
END
    chmod +x /usr/bin/systemctl
    : > $CALLS
}

# Ten million pages swapped out in a day, as far as doctor sees: this guest has nothing to swap to.
make_swapping() {
    printf 'Filename Type Size Used Priority\n/dev/none partition 9 9 -2\n' > /tmp/swaps
    printf '86400.00 1.00\n' > /tmp/uptime
    printf 'pswpin 5\npswpout 10000000\n' > /tmp/vmstat
    for file in swaps uptime vmstat; do
        must mount --bind /tmp/$file /proc/$file
    done
}

stop_swapping() {
    for file in swaps uptime vmstat; do
        must umount /proc/$file
    done
}

# mend WORD OPTIONS..: has doctor do it, and says how it ended and what is so then.
mend() {
    local word=$1
    shift
    case $1 in
    --fix) set -- "$@" --json "$MNT" ;;
    esac
    ssdlab doctor "$@" --yes > /tmp/mended.json 2> /tmp/said
    say SAY "$word.code" $?
    say SAY "$word.said" "$(tr '\n' ' ' < /tmp/said)"
    say SAY "$word.swappiness" "$(cat /proc/sys/vm/swappiness)"
    say SAY "$word.settings" "$(grep -v '^#' $SETTINGS 2> /dev/null)"
    say SAY "$word.timer" "$(ls $WANTED)"
    say SAY "$word.calls" "$(tr '\n' ';' < $CALLS)"
    send "$word" /tmp/mended.json
    : > $CALLS
}

try_fixes() {
    drives=virtio4 failed=
    make_systemctl
    mkdir -p "$MNT"
    must mkfs.ext4 -q -F -b 4096 -E nodiscard "$dev_virtio4"
    must mount -t ext4 "$dev_virtio4" "$MNT"
    echo 60 > /proc/sys/vm/swappiness
    mend swappiness-fine --fix swappiness
    make_swapping
    mend swappiness --fix swappiness
    stop_swapping
    mend swappiness-undone --undo
    touch /tmp/no-bus
    mend timer-failed --fix automatic-trim
    rm /tmp/no-bus
    mend timer-failed-undone --undo
    mend timer --fix automatic-trim
    mend timer-again --fix automatic-trim
    mend timer-undone --undo
    mend nothing-undone --undo
    must umount "$MNT"
    rm -rf /etc/systemd /usr/lib/systemd /run/systemd/system /usr/bin/systemctl /var/lib/ssdlab
    wipe virtio4
    say DONE
}
