"""What arrived at the drives, and whether doctor's word is that."""

import json

from stacks import IN_MEMORY, NO_FLUSHES, STACKS

MIB = 1 << 20
# The guest deletes a file of 24 MiB; of that, or of all that is free, at least this arrives at
# each drive below where TRIM passes (a stripe of four has 6 MiB of it).
TRIMMED_LEAST = 4 * MIB
# The guest discards 16 MiB of a layer; layers keep a little back where their own units begin.
DISCARDED_LEAST = 8 * MIB


class Layer:
    """A block device of a stack, and what of a discard on it arrived at drives."""

    def __init__(self, names, code, arrived):
        self.names = names
        self.code = code
        self.passes = arrived >= DISCARDED_LEAST
        self.arrived = arrived


class Observed:
    """What was seen while the guest had one stack."""

    def __init__(self, name):
        self.name = name
        self.facts = {}
        self.marks = {}
        self.layers = []
        self.files = {}
        self.failed = None

    @property
    def is_judged(self):
        """Whether doctor was asked."""
        return "doctor-root-code" in self.facts

    def arrived(self, before, after):
        """Bytes trimmed between two marks, by drive."""
        first, last = self.marks[before], self.marks[after]
        return {drive: last[drive].trimmed - first[drive].trimmed for drive in first}

    def add_layer(self, names):
        arrived = sum(self.arrived("before", "after").values())
        self.layers.append(Layer(names, self.facts.get("blkdiscard-code"), arrived))

    def works(self, point="trimmed"):
        """Whether the drives were told what was deleted: all of them."""
        return all(bytes >= TRIMMED_LEAST for bytes in self.arrived("deleted", point).values())

    def flushes(self):
        """Whether a flush arrived when a file was made durable."""
        first, last = self.marks["written"], self.marks["synced"]
        return any(last[drive].flushes > first[drive].flushes for drive in first)

    def stops_at(self):
        """Names of the lowest layer that does not pass discards; 'fs' where all block devices do."""
        if self.works():
            return None
        for layer in reversed(self.layers):
            if not layer.passes:
                return set(layer.names)
        return {"fs", "/mnt/top"}

    def right_names(self):
        """What the layer where TRIM stops may be called."""
        return self.stops_at() | set(self.facts.get("also", "").split())

    def truth(self):
        """What is right to say, for those who look at the capture later."""
        stops = None if self.works() else sorted(self.right_names())
        return {"works": self.works(), "stops_at": stops, "flushes": self.flushes()}

    def trouble(self):
        """Why what was seen cannot be right, whatever doctor says: the guest or this script."""
        if self.failed:
            return f"could not be built: {self.failed}"
        expected = STACKS[self.name]
        stops = self.stops_at()
        if (expected is None) != (stops is None) or (stops and expected not in stops):
            seen = "passes" if stops is None else "stops at " + "/".join(sorted(stops))
            awaited = "passes" if expected is None else f"stops at {expected}"
            return f"TRIM {seen} by the drives' counters, where the table says that it {awaited}"
        if "mended" in self.marks and not self.works("mended"):
            return "what should let TRIM pass does not"
        if self.flushes() != (self.name not in NO_FLUSHES | IN_MEMORY):
            return f"flushes {'arrive' if self.flushes() else 'do not arrive'} at the drives"
        return None


class Word:
    """What doctor says of a stack."""

    def __init__(self, trim, barriers):
        self.works = trim["works"]
        self.stops_at = trim["stops_at"]
        # Nothing where it does not look.
        self.flushes = barriers and barriers["verdict"] == "fine"

    @staticmethod
    def read(data):
        """From the JSON of `doctor --json`; None where that has no word on TRIM."""
        try:
            targets = json.loads(data)["targets"]
        except ValueError:
            return None
        checks = {check["check"]: check for target in targets for check in target["checks"]}
        if len(targets) != 1 or "trim" not in checks:
            return None
        return Word(checks["trim"], checks.get("barriers"))

    def __str__(self):
        if self.works is None:
            return "does not know"
        return "works" if self.works else f"stops at {self.stops_at}"


# Who is asked: root and nobody in the guest, and the capture of it here, where one was made.
VOICES = ("root", "nobody", "capture")


def wrong(observed, who):
    """What is wrong with doctor's word as `who` got it; None if nothing is."""
    word = Word.read(observed.files.get(f"doctor-{who}.json", b""))
    if word is None:
        code = observed.facts.get(f"doctor-{who}-code")
        said = observed.files.get(f"doctor-{who}.err", b"").decode(errors="replace").split("\n")
        return f"has no word on TRIM (exit code {code}): {said[0]}"
    has_cache = observed.name not in IN_MEMORY
    if has_cache and word.flushes is not None and word.flushes != observed.flushes():
        return f"says that flushes {'are' if word.flushes else 'are not'} sent"
    if word.works is None:
        # Without root there may be no way to know, and saying so is right.
        return None if who == "nobody" else "does not know"
    works = observed.works()
    if word.works != works:
        return f"says that TRIM {word}; by the drives' counters it {'works' if works else 'does not'}"
    if works:
        return f"says that TRIM works, and stops at {word.stops_at}" if word.stops_at else None
    names = observed.right_names()
    if short(word.stops_at or "") not in {short(name) for name in names}:
        return f"says that TRIM {word}; discards stop at {'/'.join(sorted(names))}"
    return None


def short(name):
    """A layer's name without where its node is."""
    return name.removeprefix("/dev/").removeprefix("mapper/")
