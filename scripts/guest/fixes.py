"""doctor --fix and --undo, carried out: the kernel's setting, the file, and what systemctl was told."""

import json

from errors import Broken
from matrix import expect

ON = "vm.swappiness = 10"
TIMER = "fstrim.timer"
ENABLE = f"systemctl enable --now {TIMER};"
DISABLE = f"systemctl disable --now {TIMER};"

# What is so after each step: the exit code (None: that of the worst verdict, at least 10 or 0),
# swappiness, its file, the units that are wanted, the calls; and words that have to be said.
STEPS = {
    "swappiness-fine": (2, "60", "", "", "", "nothing to fix"),
    "swappiness": (None, "10", ON, "", "", "reverts it"),
    "swappiness-undone": (0, "60", "", "", "", "swappiness"),
    "timer-failed": (1, "60", "", "", ENABLE, "Failed to connect to bus"),
    "timer-failed-undone": (0, "60", "", "", DISABLE, "automatic-trim"),
    "timer": (None, "60", "", TIMER, ENABLE, "reverts it"),
    "timer-again": (2, "60", "", TIMER, "", "nothing to fix"),
    "timer-undone": (0, "60", "", "", DISABLE, "automatic-trim"),
    "nothing-undone": (2, "60", "", "", "", "no fix to undo"),
}
KEYS = ("swappiness", "settings", "timer", "calls")


def check(machine, clock):
    """Has the guest mend and take back; gives all that is wrong, in words."""
    facts, files = listen(machine, clock)
    found = []
    for step, (code, *state, said) in STEPS.items():
        got = facts.get(f"{step}.code")
        codes = ("0", "10", "11", "12") if code is None else (str(code),)
        if got not in codes:
            found.append(f"{step}: exit code {got}: {facts.get(f'{step}.said')}")
        for key, right in zip(KEYS, state):
            if facts.get(f"{step}.{key}", "") != right:
                found.append(f"{step}: {key} is {facts.get(f'{step}.{key}')!r}, not {right!r}")
        if said not in facts.get(f"{step}.said", ""):
            found.append(f"{step}: says {facts.get(f'{step}.said')!r}, not {said!r}")
    before, after = (verdict(files.get(step)) for step in ("swappiness", "timer"))
    if before not in ("notice", "warning", "problem") or after not in ("fine", "notice"):
        found.append(f"automatic-trim was {before} and is {after} with the timer")
    return found


def listen(machine, clock):
    expect(machine, clock, "NEXT")
    machine.answer("fixes")
    facts, files = {}, {}
    while True:
        order, _, words = machine.line(clock).partition(" ")
        if order == "SAY":
            key, _, value = words.partition(" ")
            facts[key] = value.strip()
        elif order == "FILE":
            name, size = words.split()
            files[name] = machine.bytes(int(size), clock)
        elif order == "DONE":
            return facts, files
        else:
            raise Broken(f"the guest could not try the fixes: {order} {words}")


def verdict(text):
    """What doctor says of trimming free space, in its JSON."""
    try:
        told = json.loads(text or b"")
    except ValueError:
        return None
    checks = [check for target in told["targets"] for check in target["checks"]]
    return next((it["verdict"] for it in checks if it["check"] == "automatic-trim"), None)
