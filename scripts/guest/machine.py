"""The virtual machine, and the port on which the guest tells what it does and asks what is next."""

import os
import select
import socket
import subprocess
import time

import children
from errors import Broken, OutOfTime

PROGRAM = "qemu-system-x86_64"
COMMAND_LINE = "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable rdinit=/init"


class Clock:
    """What is left of the limit on time."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        left = self.end - time.monotonic()
        if left <= 0:
            raise OutOfTime("the limit on time was reached")
        return left


class Machine:
    """A guest that runs, with its drives."""

    def __init__(self, kernel, initramfs, drives, directory, memory="1G"):
        self.console = os.path.join(directory, "console.log")
        self.log = os.path.join(directory, "qemu.log")
        path = os.path.join(directory, "orders.socket")
        # We listen before the guest is started, so that nothing has to be tried twice.
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.connection = None
        self.buffer = b""
        command = [
            PROGRAM, "-machine", "q35", "-cpu", "Nehalem", "-accel", "tcg,thread=multi", "-smp", "1",
            "-m", memory, "-display", "none", "-no-reboot", "-nodefaults", "-no-user-config",
            "-serial", f"file:{self.console}", "-kernel", kernel.image, "-initrd", initramfs,
            "-append", COMMAND_LINE,
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=orders,path={path}",
            "-device", "virtserialport,chardev=orders,name=ssdlab.orders",
        ]
        with open(self.log, "wb") as log:
            self.process = children.start(command + devices(drives), stdout=log, stderr=log)

    def connect(self, clock):
        while self.connection is None:
            ready, _, _ = select.select([self.listener], [], [], min(1, clock.left()))
            if ready:
                self.connection, _ = self.listener.accept()
            elif self.process.poll() is not None:
                raise Broken(f"{PROGRAM} ended with {self.process.returncode}:\n{self.tail(self.log)}")

    def fill(self, clock):
        """Waits for more from the guest."""
        ready, _, _ = select.select([self.connection], [], [], clock.left())
        if not ready:
            raise OutOfTime("the limit on time was reached")
        more = self.connection.recv(1 << 16)
        if not more:
            raise Broken(f"the guest ended by itself:\n{self.tail(self.console)}")
        self.buffer += more

    def line(self, clock):
        while b"\n" not in self.buffer:
            self.fill(clock)
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode(errors="replace")

    def bytes(self, size, clock):
        while len(self.buffer) < size:
            self.fill(clock)
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def answer(self, words):
        self.connection.sendall(words.encode() + b"\n")

    def wait(self, clock):
        """Waits until the guest has switched itself off."""
        try:
            code = self.process.wait(clock.left())
        except subprocess.TimeoutExpired as late:
            raise OutOfTime("the guest did not switch itself off") from late
        if code != 0:
            raise Broken(f"{PROGRAM} ended with {code}:\n{self.tail(self.log)}")

    def close(self):
        """Leaves no process and no socket, whatever has happened."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.connection is not None:
            self.connection.close()
        self.listener.close()

    @staticmethod
    def tail(path, lines=40):
        with open(path, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-lines:])


def devices(drives):
    """The options for the drives, each on its bus."""
    options = []
    for bus in ("virtio-scsi-pci,id=scsi", "qemu-xhci,id=usb", "usb-uas,id=uas,bus=usb.0"):
        options += ["-device", bus]
    sata = 0
    for drive in drives:
        name = drive.name
        options += ["-blockdev", (f"driver=raw,node-name={name},discard=unmap,detect-zeroes=off,"
                                  f"cache.direct=on,cache.no-flush=off,file.driver=nbd,"
                                  f"file.server.type=unix,file.server.path={drive.socket}")]
        device = {
            "virtio": f"virtio-blk-pci,serial={name}",
            "nvme": f"nvme,serial={name}",
            "ahci": f"ide-hd,bus=ide.{sata},serial={name}",
            "scsi": f"scsi-hd,bus=scsi.0,serial={name}",
            "usb-storage": f"usb-storage,bus=usb.0,serial={name}",
            "usb-uas": f"scsi-hd,bus=uas.0,serial={name}",
        }[drive.bus]
        if drive.bus == "ahci":
            sata += 1
        options += ["-device", f"{device},drive={name},logical_block_size=512,physical_block_size=4096"]
    return options
