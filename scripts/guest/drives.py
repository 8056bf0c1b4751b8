"""Simulated drives, each served over NBD by a process of ours."""

import json
import os
import select
import signal
import subprocess

import children
from errors import Broken, OutOfTime

# Small, and the map in RAM; what matters here is what arrives at the drive.
PROFILE = "sim:toshiba-xg5,scale=1/512"

# Name (and serial number, by which the guest knows it), and the bus it is on.
DRIVES = {
    "virtio1": "virtio", "virtio2": "virtio", "virtio3": "virtio", "virtio4": "virtio",
    "nvme1": "nvme", "nvme2": "nvme", "ahci1": "ahci", "scsi1": "scsi", "usb1": "usb-storage",
    "uas1": "usb-uas",
}


class Counters:
    """What has arrived at a drive since it was attached."""

    def __init__(self, status):
        requests = status["requests"]
        self.trimmed = requests["trims"]["bytes"]
        self.flushes = requests["flushes"]["requests"]


class Drive:
    """One simulated drive and the process that serves it."""

    def __init__(self, ssdlab, name, directory):
        self.ssdlab = ssdlab
        self.name = name
        self.bus = DRIVES[name]
        self.image = os.path.join(directory, f"{name}.ssd")
        self.socket = os.path.join(directory, f"{name}.socket")
        self.log = os.path.join(directory, f"{name}.log")
        self.environment = dict(os.environ, SSDLAB_RUN=directory)
        self.process = None

    def create(self):
        subprocess.run([self.ssdlab, "create", "--quiet", PROFILE, self.image], check=True,
                       env=self.environment)

    def attach(self, clock):
        """Serves the drive, and returns when it can be reached."""
        with open(self.log, "ab") as log:
            self.process = children.start(
                [self.ssdlab, "attach", self.image, "--time", "fast", "--nbd", f"unix:{self.socket}"],
                stdout=subprocess.PIPE, stderr=log, env=self.environment)
        # The address is printed when the socket is there.
        ready, _, _ = select.select([self.process.stdout], [], [], clock.left())
        if not ready:
            raise OutOfTime(f"{self.name} was not attached")
        if not self.process.stdout.readline():
            raise Broken(f"{self.name} was not attached: see {self.log}")

    def counters(self):
        # The process gives up those that are slow to ask, as they may be on a busy machine.
        for _ in range(10):
            answer = subprocess.run([self.ssdlab, "status", "--json", self.image],
                                    capture_output=True, env=self.environment)
            if answer.returncode == 0:
                return Counters(json.loads(answer.stdout))
        raise Broken(f"status {self.image}: {answer.stderr.decode(errors='replace')}")

    def detach(self):
        """Ends the process in order; its exit code has to be 0."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        # Saving the tables of so small a drive takes milliseconds; minutes mean that it hangs.
        code = self.process.wait(timeout=300)
        self.process.stdout.close()
        self.process = None
        if code != 0:
            raise Broken(f"{self.name}: attach ended with {code}: see {self.log}")

    def kill(self):
        """Leaves nothing behind, whatever has happened."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None
