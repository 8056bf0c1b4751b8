"""ssdlab: measures, simulates and explains what use does to an SSD.

>>> import ssdlab
>>> report = ssdlab.run("fragmentation", "sim:toshiba-xg5", quick=True)
>>> report.findings[0].level
'problem'

`run` puts a drive through a published protocol, `Drive` through phases of one's own, `sweep` runs many.
Lengths are bytes or text (``"4K"``, ``"1 GiB"``), times seconds or text (``"60us"``, ``"1h"``); names say the
unit of what comes back. numpy, pandas and pyarrow are imported where they are needed, and not before.
"""

from __future__ import annotations

from . import theory
from ._drive import Drive, Latencies, PhaseResult
from ._errors import (
    EndOfLifeError,
    Error,
    ImpossiblePoints,
    Interrupted,
    IoError,
    NoSpaceError,
    RefusedError,
    UnsupportedError,
    UsageError,
)
from ._profile import Profile, profiles
from ._report import Comparison, Finding, Histogram, Report, Series, compare
from ._run import Experiment, Setting, experiments, kept, load, run
from ._ssdlab import __version__
from ._sweep import SweepResult, sweep
from ._tables import Table, Tables

__all__ = [
    "Comparison",
    "Drive",
    "EndOfLifeError",
    "Error",
    "Experiment",
    "Finding",
    "Histogram",
    "ImpossiblePoints",
    "Interrupted",
    "IoError",
    "Latencies",
    "NoSpaceError",
    "PhaseResult",
    "Profile",
    "RefusedError",
    "Report",
    "Series",
    "Setting",
    "SweepResult",
    "Table",
    "Tables",
    "UnsupportedError",
    "UsageError",
    "__version__",
    "compare",
    "experiments",
    "kept",
    "load",
    "profiles",
    "run",
    "sweep",
    "theory",
]
