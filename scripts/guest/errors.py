"""What can go wrong, by what it means for the caller."""


class Cannot(Exception):
    """This machine cannot do it: no package, no program. Not a finding about ssdlab."""


class OutOfTime(Exception):
    """The limit on time was reached; nothing is said about what was not done."""


class Broken(Exception):
    """Something of ours, or the guest, did what it must not."""
