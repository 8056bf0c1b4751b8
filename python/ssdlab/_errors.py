"""The exceptions of ssdlab, a class for each kind of failure that the library knows."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Something failed. All other errors of ssdlab are kinds of this one.

    Attributes
    ----------
    result : Report or SweepResult or None
        What was measured before the failure, where something was. A report of a run that did not come to
        its end says so in its findings.
    """

    result: Any = None


class UsageError(Error, ValueError):
    """The request itself is wrong: a name, a key, a size, a file that is no report.

    The sentence names the place and says what is right. Nothing was run.
    """


class RefusedError(Error):
    """Refused, so that no data is harmed."""


class UnsupportedError(Error):
    """This drive or this machine cannot do it."""


class NoSpaceError(UnsupportedError):
    """There is not enough space on the drive or on the file system."""


class EndOfLifeError(UnsupportedError):
    """The drive has become read-only, because its flash is worn out."""


class IoError(Error):
    """The operating system or a real drive has failed a request."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, while something was running.

    A `KeyboardInterrupt`, so that ``except Exception`` does not swallow it.

    Attributes
    ----------
    result : Report or SweepResult or None
        What was measured until then, marked as interrupted.
    """

    result: Any = None


class ImpossiblePoints(UserWarning):
    """Some points of a sweep cannot be run, and the others are."""
