"""A file tree on one drive: written and trimmed by the guest, and the same after all."""

import hashlib
import os
import subprocess

from errors import Broken
from judge import MIB
from matrix import expect
from kernel import search_path

DRIVE = "virtio4"

# Programs of the host that read the tree without mounting it, and their packages.
TOOLS = {"nbdcopy": "libnbd-bin", "e2fsck": "e2fsprogs", "debugfs": "e2fsprogs"}


def write(machine, drive, clock):
    """Has the guest write the tree, delete a part, and trim; gives the digest of what is left."""
    expect(machine, clock, "NEXT")
    machine.answer("tree")
    trimmed = []
    digest = None
    while True:
        order, _, words = machine.line(clock).partition(" ")
        if order == "MARK":
            trimmed.append(drive.counters().trimmed)
            machine.answer("ok")
        elif order == "TREE":
            digest = words
        elif order == "DONE":
            break
        elif order != "SAY":
            raise Broken(f"the guest could not write a tree: {order} {words}")
    if trimmed[1] - trimmed[0] < MIB:
        raise Broken(f"fstrim of the tree: {trimmed[1] - trimmed[0]} bytes arrived at the drive")
    return digest


def compare(drive, digest, directory, clock):
    """Checks the image of the drive, attaches it again, and reads the tree from it."""
    checked = subprocess.run([drive.ssdlab, "check", drive.image], capture_output=True, text=True,
                             env=drive.environment)
    if checked.returncode != 0:
        raise Broken(f"check {drive.image}: {checked.stdout}{checked.stderr}")
    drive.attach(clock)
    raw = os.path.join(directory, "raw")
    tool(["nbdcopy", f"nbd+unix:///?socket={drive.socket}", raw])
    drive.detach()
    tool(["e2fsck", "-fn", raw])
    place = os.path.join(directory, "tree")
    os.makedirs(place)
    tool(["debugfs", "-R", f"rdump /tree {place}", raw])
    found = digest_of(place)
    if found != digest:
        raise Broken(f"the tree was {digest} in the guest and is {found} after detaching")


def tool(command):
    done = subprocess.run(command, capture_output=True, text=True,
                          env=dict(os.environ, PATH=search_path()))
    if done.returncode != 0:
        raise Broken(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def digest_of(place):
    """The digest of all digests, as sha256sum prints them for `find tree -type f | sort`."""
    paths = []
    for directory, _, names in os.walk(os.path.join(place, "tree")):
        paths += [os.path.join(directory, name) for name in names]
    lines = hashlib.sha256()
    for path in sorted(os.path.relpath(path, place).encode() for path in paths):
        with open(os.path.join(place.encode(), path), "rb") as file:
            lines.update(hashlib.sha256(file.read()).hexdigest().encode() + b"  " + path + b"\n")
    return lines.hexdigest()
