"""Hands the guest one stack after the other, and notes what it says and what the drives count."""

import time

from drives import Counters
from errors import Broken
from judge import Observed


def run_stacks(machine, drives, names, clock):
    """Goes through the stacks; gives what was observed of each, and how many seconds it took. The
    guest then waits for more."""
    machine.connect(clock)
    for name in names:
        begin = time.monotonic()
        expect(machine, clock, "NEXT")
        machine.answer(name)
        observed = Observed(name)
        listen(machine, drives, observed, clock)
        yield observed, time.monotonic() - begin


def expect(machine, clock, word):
    line = machine.line(clock)
    if line != word:
        raise Broken(f"the guest says {line!r} where {word!r} is due")


def listen(machine, drives, observed, clock):
    """Takes what the guest says about one stack until it is done with it."""
    while True:
        order, _, words = machine.line(clock).partition(" ")
        if order == "DONE":
            return
        if order == "MARK":
            point, *below = words.split()
            observed.marks[point] = dict(count(drives, name) for name in below)
            machine.answer("ok")
        elif order == "SAY":
            key, _, value = words.partition(" ")
            observed.facts[key] = value
        elif order == "LAYER":
            observed.add_layer(words.split())
        elif order == "FILE":
            name, size = words.split()
            observed.files[name] = machine.bytes(int(size), clock)
        elif order == "FAILED":
            observed.failed = observed.failed or words
        else:
            raise Broken(f"the guest says {order!r}, which means nothing")


def count(drives, name):
    """A drive's counters. A drive in the guest's memory is named with what it counts itself."""
    if "=" in name:
        name, _, pages = name.partition("=")
        return name, Counters({"requests": {"trims": {"bytes": int(pages) * 4096},
                                            "flushes": {"requests": 0}}})
    return name, drives[name].counters()
