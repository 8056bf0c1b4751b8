#!/usr/bin/env python3
"""What a request costs ssdlab and fio, side by side, on the same device.

Runs 4 KiB random reads and writes at depth 1, 4 and 32, by turns, with ssdlab and with each engine
of fio, and prints the processor time of a request (user and system, of the whole process tree) and
the requests a second, and the median of the ratios of runs side by side with its 95 % interval.
Which of fio's engines is its best is decided by the other half of the turns.

    sudo scripts/overhead.py                   # zram, or a loop device over tmpfs
    sudo scripts/overhead.py --disk /dev/sda --directory /var/tmp
                                               # a disk as well, which is only READ as it is; and
                                               # a file of our own in the directory

Both draw addresses at random, so that some come twice, and read files of the same size. On
a virtio disk it matters how many requests go to the kernel in one call: all 32 at once cost a fifth
of the reads a second, for fio as well (--iodepth_batch_submit=32); fio sends them one by one, we
four at a time.

ssdlab asks the kernel to keep the processors awake while it measures (docs/EXPERIMENTS.md,
"Requests to a real drive"), which fio does not. What that gains shows with

    sudo scripts/overhead.py --awake           # for fio as well, all the time
    sudo scripts/overhead.py --asleep          # for neither

Needs root, fio, and a release build (cargo build --release). Everything that it sets up goes again.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Name, the depths it can have, options. psync has one request in flight, whatever iodepth says.
FIO = [
    ("psync", {1}, ["--ioengine=psync"]),
    ("libaio", None, ["--ioengine=libaio"]),
    ("io_uring", None, ["--ioengine=io_uring"]),
    ("io_uring fixed", None, ["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1"]),
    ("io_uring fixed nonvectored", None,
     ["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1", "--nonvectored=1"]),
    ("io_uring sqpoll", None,
     ["--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1", "--sqthread_poll=1"]),
]
OURS = "ssdlab"

# An interval whose ends are closer than this is narrow enough.
NARROW = 1.05


class Measured:
    """One run: requests, processor seconds, requests a second."""

    def __init__(self, requests, cpu, iops):
        self.cpu_us = cpu / max(requests, 1) * 1e6
        self.iops = iops


NICE = 0

# More for our command line.
ALSO = []


def run(command):
    """Runs a command; gives its output and the processor time of its whole tree."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=lambda: os.nice(NICE))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text = out.read().decode()
        if child.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {child.returncode}:\n{err.read().decode()}")
    return text, usage.ru_utime + usage.ru_stime


AWAKE = "/dev/cpu_dma_latency"


def keep_awake():
    """Holds a request that no processor sleeps, as ssdlab does on a virtual machine."""
    request = open(AWAKE, "wb", buffering=0)
    request.write(bytes(4))
    return request


def run_fio(options, case, seconds):
    if case.fill:
        # ssdlab's file is filled right before; what a disk has just taken in is read differently.
        fill(case.path, case.size)
    command = [
        "fio", "--name=overhead", f"--filename={case.path}", "--direct=1", "--bs=4k",
        f"--rw=rand{case.operation}", f"--iodepth={case.depth}", "--time_based", "--thread",
        f"--runtime={round(seconds * 1000)}ms", f"--size={case.size}", "--norandommap", "--randrepeat=0",
        "--allow_file_create=0", "--invalidate=0", "--output-format=json",
        # Data that is random from end to end, as ours is: what fio scrambles by default takes the
        # compressor of zram twice as long, and would flatter us.
        "--scramble_buffers=0", *options,
    ]
    text, cpu = run(command)
    job = json.loads(text[text.index("{"):])["jobs"][0][case.operation]
    return Measured(job["total_ios"], cpu, job["iops"])


def run_ours(program, case, seconds):
    requests, cpu, iops = once_ours(program, case, f"{round(seconds * 1000)}ms")
    if case.fill:
        # A file of its own has to be filled first; what that costs alone is taken off.
        of_fill, cpu_of_fill, _ = once_ours(program, case, "1ms")
        requests, cpu = requests - of_fill, cpu - cpu_of_fill
    return Measured(requests, cpu, iops)


def once_ours(program, case, time_words):
    command = [
        program, "run", "steady", case.target, "--quiet", "--json", "--no-store",
        "--set", f"time={time_words}", "--set", f"fill={case.fill}",
        "--set", f"area={case.size}", "--set", f"depth={case.depth}",
        "--set", f"read_percent={100 if case.operation == 'read' else 0}", *case.consent, *ALSO,
    ]
    text, cpu = run(command)
    report = json.loads(text)
    table = report["tables"][0]
    names = [column["name"] for column in table["columns"]]
    return report["cost"]["requests"], cpu, table["rows"][0][names.index("iops")]


class Case:
    """One workload on one target. fio gets `path`; ssdlab `target`, which is the same device."""

    def __init__(self, name, path, target, operation, depth, size, consent, fill=0):
        self.name = name
        self.path = path
        self.target = target
        self.operation = operation
        self.depth = depth
        self.size = size
        self.consent = consent
        self.fill = fill


def engines_for(depth):
    return [(name, options) for name, depths, options in FIO if depths is None or depth in depths]


def best_by_turns(theirs, is_better):
    """fio's best engine for each turn, by the other half of the turns. Who is best in the very turns
    that are compared is best by luck as well: the best of four engines that are equal looks 2 % better
    than it is where runs differ by 6 %."""
    count = len(next(iter(theirs.values())))
    if count == 1:
        return [is_better(theirs, key=lambda name: theirs[name][0])]
    halves = [is_better(theirs, key=lambda name: median(theirs[name][1 - half::2]))
              for half in (0, 1)]
    return [halves[turn % 2] for turn in range(count)]


def interval(ours, theirs):
    """Median of the ratios of paired runs, and its 95 % interval (or the widest there is, of fewer
    than six) from their order, whatever they are distributed like: one run that another program
    disturbed moves it little."""
    ratios = sorted(a / b for a, b in zip(ours, theirs))
    count = len(ratios)
    # The interval from the kth to the kth last misses the median as often as a fair coin falls
    # the same way in all but fewer than k of the tosses.
    k = 1
    while 2 * sum(math.comb(count, i) for i in range(k + 1)) / 2 ** count <= 0.05:
        k += 1
    middle = (ratios[(count - 1) // 2] + ratios[count // 2]) / 2
    return middle, ratios[k - 1], ratios[count - k]


def is_told(ratio):
    """Whether more runs would hardly say anything else."""
    middle, low, high = ratio
    return high / low < NARROW or low > 1.02 or high < 0.98


def median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def against_best(runs, is_better):
    """fio's best engine over all turns, and how we compare with its best."""
    theirs = {name: found for name, found in runs.items() if name != OURS}
    best = best_by_turns(theirs, is_better)
    ratio = interval(runs[OURS], [theirs[name][turn] for turn, name in enumerate(best)])
    return is_better(theirs, key=lambda name: median(theirs[name])), ratio


def measure(case, program, arguments):
    """Alternating repeats; prints one row, and returns whether the line holds."""
    engines = engines_for(case.depth)
    # A short look at all of them, then the best by either measure for the repeats.
    look = {name: run_fio(options, case, arguments.seconds) for name, options in engines}
    by_cpu = sorted(look, key=lambda name: look[name].cpu_us)[:2]
    by_iops = sorted(look, key=lambda name: -look[name].iops)[:2]
    kept = [(name, options) for name, options in engines if name in by_cpu + by_iops]
    runs = {name: [] for name, _ in kept}
    runs[OURS] = []
    for repeat in range(max(arguments.most, arguments.repeats)):
        order = [(OURS, None)] + kept
        shift = repeat % len(order)
        for name, options in order[shift:] + order[:shift]:
            one = (run_ours(program, case, arguments.seconds) if options is None
                   else run_fio(options, case, arguments.seconds))
            runs[name].append(one)
        cpu = {name: [one.cpu_us for one in found] for name, found in runs.items()}
        iops = {name: [one.iops for one in found] for name, found in runs.items()}
        best_cpu, cpu_ratio = against_best(cpu, min)
        best_iops, iops_ratio = against_best(iops, max)
        if repeat + 1 >= arguments.repeats and is_told(cpu_ratio) and is_told(iops_ratio):
            break
    print(f"{case.name:10} {case.operation:5} {case.depth:3} | "
          f"{median(cpu[OURS]):6.2f} {median(cpu[best_cpu]):6.2f}  "
          f"{cpu_ratio[0]:5.2f} ({cpu_ratio[1]:4.2f}..{cpu_ratio[2]:4.2f})  {best_cpu:26} | "
          f"{median(iops[OURS]):8.0f} {median(iops[best_iops]):8.0f}  "
          f"{iops_ratio[0]:5.2f} ({iops_ratio[1]:4.2f}..{iops_ratio[2]:4.2f})  {best_iops}, "
          f"{len(runs[OURS])} turns",
          flush=True)
    return cpu_ratio[1] <= 1.0 and iops_ratio[2] >= 1.0


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read().strip()


class Memory:
    """A block device in memory: zram, or a loop device over tmpfs."""

    def __init__(self, size):
        self.added = self.used = self.loop = self.backing = None
        try:
            self.device = self.zram(size) or self.loop_device(size)
            fill(self.device, size)
        except BaseException:
            self.close()
            raise

    def zram(self, size):
        if os.path.exists("/sys/class/zram-control/hot_add"):
            self.added = read("/sys/class/zram-control/hot_add")
            number = self.added
        elif os.path.exists("/sys/block/zram0") and read("/sys/block/zram0/disksize") == "0":
            number = "0"
        else:
            return None
        self.used = f"/sys/block/zram{number}"
        write(f"{self.used}/disksize", str(size))
        return f"/dev/zram{number}"

    def loop_device(self, size):
        self.backing = tempfile.NamedTemporaryFile(dir="/dev/shm")
        self.backing.truncate(size)
        found = subprocess.run(["losetup", "--find", "--show", self.backing.name], check=True,
                               capture_output=True, text=True)
        self.loop = found.stdout.strip()
        print(f"no zram here: {self.loop} over tmpfs instead, whose requests a kernel thread "
              "carries out that is counted for neither program")
        return self.loop

    def close(self):
        if self.loop:
            subprocess.run(["losetup", "--detach", self.loop], check=True)
        if self.backing:
            self.backing.close()
        if self.used:
            for _ in range(50):
                try:
                    write(f"{self.used}/reset", "1")
                    break
                except OSError:
                    time.sleep(0.1)
            else:
                print(f"{self.used} cannot be reset", file=sys.stderr)
        if self.added:
            write("/sys/class/zram-control/hot_remove", self.added)


def fill(path, size):
    """Random data: zeros would be answered without touching anything."""
    with open(path, "r+b", buffering=0) as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ssdlab", default=f"{ROOT}/target/release/ssdlab")
    parser.add_argument("--seconds", type=float, default=3, help="length of each run")
    parser.add_argument("--repeats", type=int, default=6, help="alternating repeats, 6 at least "
                        "for an interval of 95 %%")
    parser.add_argument("--most", type=int, default=0, help="go on to so many repeats where the "
                        "interval is wide and holds 1")
    parser.add_argument("--size", type=int, default=512, help="MiB of each target")
    parser.add_argument("--depths", default="1,4,32")
    parser.add_argument("--operations", default="read,write")
    parser.add_argument("--no-memory", action="store_true", help="leave the device in memory out")
    parser.add_argument("--disk", help="a disk that is read as it is")
    parser.add_argument("--directory", help="where a file is created and written to")
    parser.add_argument("--nice", type=int, default=0,
                        help="niceness of all runs; -15 on a machine that others use as well")
    processors = parser.add_mutually_exclusive_group()
    processors.add_argument("--awake", action="store_true",
                            help="keep the processors awake for fio as well")
    processors.add_argument("--asleep", action="store_true",
                            help="let them sleep while ssdlab measures, too")
    arguments = parser.parse_args()
    global NICE
    NICE = arguments.nice
    if arguments.asleep:
        ALSO.append("--let-processors-sleep")
    if os.geteuid() != 0:
        sys.exit("block devices are root's")
    if shutil.which("fio") is None:
        sys.exit("fio is not installed")
    if not os.path.exists(arguments.ssdlab):
        sys.exit(f"there is no {arguments.ssdlab}: cargo build --release")
    size = arguments.size << 20
    depths = [int(depth) for depth in arguments.depths.split(",")]
    operations = arguments.operations.split(",")
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True).stdout.strip()
    print(f"{version}, {os.uname().release}, {os.cpu_count()} processors, runs of "
          f"{arguments.seconds} s, {max(arguments.repeats, arguments.most)} repeats by turns at most, load {os.getloadavg()[0]}")
    # Held until the end of the program.
    held = keep_awake() if arguments.awake else None
    print("processors: " + ("kept awake for both" if held else
                            "left to sleep for both" if arguments.asleep else
                            "kept awake by ssdlab while it measures"))
    print("target     what  depth | us of processor a request: ssdlab, fio, ratio, engine"
          "         | IOPS: ssdlab, fio, ratio, engine")
    holds = True
    if not arguments.no_memory:
        memory = Memory(size)
        try:
            consent = ["--destroy-data", "--confirm", memory.device, "--purge", "none"]
            name = os.path.basename(memory.device)
            for operation in operations:
                # What is only read is not to be destroyed.
                said = [] if operation == "read" else consent
                for depth in depths:
                    case = Case(name, memory.device, memory.device, operation, depth, size, said)
                    holds &= measure(case, arguments.ssdlab, arguments)
        finally:
            memory.close()
    if arguments.disk and "read" in operations:
        for depth in depths:
            case = Case(os.path.basename(arguments.disk), arguments.disk, arguments.disk, "read",
                        depth, size, [])
            holds &= measure(case, arguments.ssdlab, arguments)
    if arguments.directory:
        # ssdlab makes a file of its own, so both use files in the same directory.
        with tempfile.NamedTemporaryFile(dir=arguments.directory, prefix="overhead-") as own:
            own.truncate(size)
            fill(own.name, size)
            for operation in operations:
                for depth in depths:
                    case = Case("file", own.name, arguments.directory, operation, depth, size,
                                [], 1)
                    holds &= measure(case, arguments.ssdlab, arguments)
    print("No row is worse than fio beyond its interval." if holds
          else "In some row fio is better, beyond the interval.")
    return 0 if holds else 1


if __name__ == "__main__":
    # A signal ends it in good order: what was set up is taken down.
    import signal

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
