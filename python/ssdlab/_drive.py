"""Simulated drives that one puts through phases of one's own."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from . import _html, _ssdlab
from ._errors import UsageError
from ._profile import Profile
from ._quantities import Duration, Length, duration, length
from ._tables import pandas

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from typing_extensions import Unpack


class Workload(TypedDict, total=False):
    """The arguments of `Drive.phase` that `Drive.write`, `Drive.read` and `Drive.mix` take, too."""

    pattern: str
    depth: int
    amount: Length | None
    time: Duration | None
    offset: Length
    length: Length | None
    rate: float | None
    arrivals: str
    flush_at_end: bool
    interval: Duration
    seed: int
    name: str | None
    progress: Callable[[str, float], Any] | None


class Latencies:
    """Latencies of the requests of one kind in a phase, to three significant digits.

    Attributes
    ----------
    count : int
        Requests counted.
    mean_us : float
        Their exact mean in microseconds; ``nan`` without a request.
    """

    def __init__(self, handle: _ssdlab.Latencies) -> None:
        self._handle = handle
        self.count = handle.count()
        mean = handle.mean_us()
        self.mean_us = float("nan") if mean is None else mean

    def percentile_us(self, percent: float) -> float:
        """The latency in microseconds that `percent` of the requests did not exceed.

        ``nan`` where fewer than 10 / (1 - percent / 100) requests were counted: such a figure cannot be
        defended.
        """
        value = self._handle.percentile_us(percent)
        return float("nan") if value is None else value

    def histogram(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.uint64]]:
        """The whole histogram.

        Returns
        -------
        edges_us : numpy.ndarray of float
            The upper edge of each filled bucket in microseconds, rising.
        counts : numpy.ndarray of int
            Requests in each of those buckets.
        """
        import numpy as np

        edges, counts = self._handle.histogram()
        return np.asarray(edges), np.asarray(counts)

    def __repr__(self) -> str:
        return f"<latencies of {self.count} requests: mean {self.mean_us:.4g} us>"


class PhaseResult:
    """What a phase measured. `Drive.write`, `Drive.read` and `Drive.mix` return it.

    Attributes
    ----------
    name : str
        What the phase was called.
    started_seconds : float
        When it began, in the drive's time.
    seconds : float
        From the first request sent to the last one answered, in the drive's time.
    requests : int
        Requests answered.
    bytes_read, bytes_written : int
        Bytes moved.
    reads, writes : Latencies
        Latencies of both kinds of requests.
    counters : dict of str to int
        What the drive counted meanwhile, in mapping units where not said otherwise.
    """

    def __init__(self, name: str, handle: _ssdlab.PhaseResult) -> None:
        self.name = name
        self._handle = handle
        figures = handle.figures()
        self.started_seconds, self.seconds, self.requests, self.bytes_read, self.bytes_written = figures
        self.reads = Latencies(handle.reads())
        self.writes = Latencies(handle.writes())
        self.counters: dict[str, int] = json.loads(handle.counted())

    @property
    def mb_per_second(self) -> float:
        """Mean throughput in MB/s (10^6 bytes a second)."""
        moved = self.bytes_read + self.bytes_written
        return moved / 1e6 / self.seconds if self.seconds else float("nan")

    @property
    def iops(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds if self.seconds else float("nan")

    @property
    def write_amplification(self) -> float:
        """Flash writes to host writes within the phase; ``nan`` without writes."""
        host = self.counters["host_writes"]
        return self.counters["flash_writes"] / host if host else float("nan")

    @property
    def throughput(self) -> pd.DataFrame:
        """MB/s in each interval: columns ``until_s`` (end of the interval since the phase began) and ``mb_per_s``."""
        import numpy as np

        until, rate = self._handle.throughput()
        pd = pandas()
        return pd.DataFrame({"until_s": np.asarray(until), "mb_per_s": np.asarray(rate)}, copy=False)  # type: ignore[no-any-return]

    def _rows(self) -> list[list[str]]:
        rows = [
            ["throughput", f"{self.mb_per_second:.4g} MB/s"],
            ["requests", f"{self.requests} ({self.iops:.4g} a second)"],
            ["time of the drive", f"{self.seconds:.4g} s"],
        ]
        for kind, latencies in (("read", self.reads), ("write", self.writes)):
            if latencies.count:
                p99 = latencies.percentile_us(99)
                words = f"mean {latencies.mean_us:.4g} us, 99 % within {p99:.4g} us"
                rows.append([f"{kind} latency", words])
        if self.counters["host_writes"]:
            rows.append(["write amplification", f"{self.write_amplification:.4g}"])
        return rows

    def __repr__(self) -> str:
        return f"<phase {self.name!r}: " + ", ".join(f"{it[0]} {it[1]}" for it in self._rows()) + ">"

    def _repr_html_(self) -> str:
        return _html.table(self.name, ["", ""], self._rows())


class Drive:
    """A simulated drive, or a stack of them, in virtual time.

    Its state stays between calls: what is written first is what later phases find. One thread at a time uses
    it; `copy` makes another in the same state. Python's lock is not held while it works, and Ctrl-C ends a
    phase.

    Parameters
    ----------
    target : str or Profile
        ``"sim:toshiba-xg5,scale=1/16"``, ``"sim:./aged.ssd"`` (a drive that was saved),
        ``"raid1(sim:a;sim:b)"``, or a profile.
    seed : int
        Seed of what the drive itself draws.

    Raises
    ------
    UsageError
        When there is no such drive, or it is a real one.

    Examples
    --------
    >>> import ssdlab
    >>> drive = ssdlab.Drive("sim:toshiba-xg5,scale=1/64").precondition("steady")
    >>> result = drive.write("4K", depth=32, amount="256M")
    >>> result.write_amplification > 1.5
    True
    """

    def __init__(self, target: str | Profile = "sim:", *, seed: int = 1) -> None:
        text = target.target if isinstance(target, Profile) else target
        self._handle = _ssdlab.Drive(text, seed)

    @classmethod
    def _of(cls, handle: _ssdlab.Drive) -> Drive:
        drive = cls.__new__(cls)
        drive._handle = handle
        return drive

    def _said(self, name: str) -> Any:
        return json.loads(self._handle.description())[name]

    def _seen(self, name: str) -> Any:
        return json.loads(self._handle.inside())[name]

    @property
    def name(self) -> str:
        """The target that it was opened as."""
        return str(self._said("name"))

    @property
    def capacity(self) -> int:
        """Bytes that can be addressed."""
        return int(self._said("capacity_bytes"))

    @property
    def physical_capacity(self) -> int | None:
        """Bytes of flash; None of a stack."""
        return self._said("physical_bytes")  # type: ignore[no-any-return]

    @property
    def block_size(self) -> int:
        """Bytes that every request is a multiple of."""
        return int(self._said("block_size"))

    @property
    def unit_size(self) -> int | None:
        """Bytes of a mapping unit, which counters count."""
        return self._said("unit_size")  # type: ignore[no-any-return]

    @property
    def history(self) -> str:
        """How it came to its state, in words."""
        return str(self._said("history"))

    @property
    def facts(self) -> dict[str, str]:
        """What a report would say of it."""
        return dict(self._said("facts"))

    @property
    def seconds(self) -> float:
        """The drive's own time, in seconds."""
        return float(self._said("seconds"))

    @property
    def counters(self) -> dict[str, Any]:
        """What it has counted since it was made, as in reports; mapping units where not said otherwise."""
        return self._seen("counters") or {}

    @property
    def write_amplification(self) -> float | None:
        """Flash writes to host writes since it was made; None before the first write."""
        return self.counters.get("write_amplification")

    @property
    def health(self) -> dict[str, Any] | None:
        """How worn it is, by the names of the NVMe health log; None of a stack."""
        return self._seen("health")  # type: ignore[no-any-return]

    @property
    def attribution(self) -> dict[str, dict[str, float]]:
        """Where the time of its requests went: seconds by part, for reads, writes and others."""
        kinds = self._seen("attribution") or {}
        return {kind: {it["name"]: it["seconds"] for it in parts} for kind, parts in kinds.items()}

    def copy(self) -> Drive:
        """Another drive in the very same state."""
        return Drive._of(self._handle.copy())

    def precondition(
        self,
        state: str = "steady",
        *,
        written: Length | None = None,
        hot: str | None = None,
        cache: str | None = None,
        stored_for: str | None = None,
        seed: int = 1,
        progress: Callable[[str, float], Any] | None = None,
    ) -> Drive:
        """Makes a used drive of a new one, as ``ssdlab precondition`` does.

        Parameters
        ----------
        state : str
            ``"steady"`` (full, in the steady state of random writes, built from theory at once),
            ``"random"``, ``"sequential"`` or ``"new"``.
        written : int or str, optional
            How much is written: bytes, or text such as ``"2x"`` (times the capacity).
        hot : str, optional
            Of a steady drive: which share of the writes went to which share of it, as ``"80%:20%"``.
        cache : str, optional
            Of a steady drive with a pseudo-SLC cache: ``"empty"`` or ``"full"``.
        stored_for : str, optional
            How long it lies without power after that, such as ``"1y"``.
        seed : int
            Seed of all that is drawn.
        progress : callable, optional
            Is called with the step's name and the share that is done.

        Returns
        -------
        Drive
            The drive itself.

        Raises
        ------
        UsageError
            When something was done to the drive before, or it is a stack.
        UnsupportedError
            When theory has no steady state for such a drive; ``"random"`` writes it then.
        """
        past = {
            "state": state,
            "written": None if written is None else length("written", written),
            "hot": hot,
            "cache": cache,
            "stored_for": stored_for,
            "seed": seed,
        }
        self._handle.precondition(past, progress)
        return self

    def write(self, block_size: Length = "4K", **more: Unpack[Workload]) -> PhaseResult:
        """Writes; see `phase` for the arguments."""
        return self.phase(block_size, read_percent=0, **more)

    def read(self, block_size: Length = "4K", **more: Unpack[Workload]) -> PhaseResult:
        """Reads; see `phase` for the arguments."""
        return self.phase(block_size, read_percent=100, **more)

    def mix(self, read_percent: int, block_size: Length = "4K", **more: Unpack[Workload]) -> PhaseResult:
        """Reads and writes, so many reads of a hundred requests; see `phase` for the arguments."""
        return self.phase(block_size, read_percent=read_percent, **more)

    def phase(
        self,
        block_size: Length = "4K",
        *,
        read_percent: int = 0,
        pattern: str = "random",
        depth: int = 1,
        amount: Length | None = None,
        time: Duration | None = None,
        offset: Length = 0,
        length: Length | None = None,
        rate: float | None = None,
        arrivals: str = "closed",
        flush_at_end: bool = False,
        interval: Duration = 1.0,
        seed: int = 1,
        name: str | None = None,
        progress: Callable[[str, float], Any] | None = None,
    ) -> PhaseResult:
        """Puts the drive through one workload and measures it.

        Parameters
        ----------
        block_size : int or str
            Bytes of each request.
        read_percent : int
            Reads of a hundred requests.
        pattern : str
            ``"random"``, ``"sequential"``, ``"random-once"`` (no block twice before each was visited), or a
            distribution as fio has it: ``"zipf:0.99"``, ``"pareto:0.2"``, ``"normal:10"``,
            ``"zoned:80/20:20/80"``; ``"scattered:80/20:20/80"`` has zones all over the region.
        depth : int
            Requests in flight.
        amount : int or str, optional
            Bytes to move, or ``"2x"`` (times the region). Once the region unless `amount` or `time` is given.
        time : float or str, optional
            For how long instead, in seconds of the drive.
        offset, length : int or str, optional
            Where on the drive; all of it unless given.
        rate : float, optional
            Requests a second at most.
        arrivals : str
            ``"closed"``: a request is sent when an earlier one is answered. ``"open"``: `rate` requests a
            second arrive at random moments (a Poisson process), answered or not, and latencies count from
            the arrival.
        flush_at_end : bool
            Flush at the end, within the measured time.
        interval : float or str
            Length of an interval of the throughput, in seconds; 0 for none.
        seed : int
            Seed of the addresses.
        name : str, optional
            What to call it in errors and results.
        progress : callable, optional
            Is called with the share that is done, a few times a second.

        Returns
        -------
        PhaseResult

        Raises
        ------
        UsageError
            When a size, a pattern or a place is wrong; nothing is run then.
        EndOfLifeError
            When the drive takes no more writes.
        Interrupted
            On Ctrl-C; the drive is where it had come to.
        """
        if arrivals not in ("closed", "open"):
            raise UsageError(f"arrivals is {arrivals!r}, not 'closed' or 'open'")
        if arrivals == "open" and rate is None:
            raise UsageError("arrivals: an open loop needs the rate at which requests arrive")
        if rate is not None and not 0 < rate < float("inf"):
            raise UsageError(f"rate {rate} is not a positive number of requests a second")
        kinds = {0: "write", 100: "read"}
        called = name or f"{pattern} {kinds.get(read_percent, 'mix')}"
        words = {
            "name": called,
            "pattern": pattern,
            "block_size": _length("block_size", block_size),
            "depth": depth,
            "read_percent": read_percent,
            "offset": _length("offset", offset),
            "length": None if length is None else _length("length", length),
            "amount": None if amount is None else _length("amount", amount),
            "time": None if time is None else duration("time", time),
            "rate": rate,
            "is_open": arrivals == "open",
            "seed": seed,
            "flush_at_end": flush_at_end,
            "interval": duration("interval", interval),
        }
        for key, most in (("depth", 2**32), ("read_percent", 256), ("seed", 2**64)):
            value = words[key]
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most:
                raise UsageError(f"{key} is {value!r}, which is no whole number in its range")
        return PhaseResult(called, self._handle.phase(words, progress))

    def flush(self) -> float:
        """Makes all acknowledged writes durable; returns how many seconds of the drive that took."""
        return self._handle.flush()

    def trim(self, offset: Length = 0, length: Length | None = None) -> float:
        """Tells the drive that a region holds nothing any more; all of it unless said.

        Returns
        -------
        float
            Seconds of the drive that it took.

        Raises
        ------
        UnsupportedError
            When trim does not get through to the drive.
        """
        bytes_ = None if length is None else _length("length", length)
        return self._handle.trim(_length("offset", offset), bytes_)

    def rest(self, time: Duration, progress: Callable[[str, float], Any] | None = None) -> None:
        """Leaves the drive alone for so long (seconds, or text such as ``"1h"``) of its own time."""
        self._handle.rest(duration("time", time), progress)

    def store(self, time: str) -> None:
        """Stores the drive without power for so long, such as ``"1y"``: its data ages."""
        self._handle.store_away(time)

    def purge(self, how: str = "factory") -> None:
        """Purges it: ``"factory"`` (another drive, in no time), ``"discard"``, ``"format"``, ``"secure-erase"``."""
        self._handle.purge(how)

    def make_new(self, how: str = "factory") -> None:
        """Does what `purge` does; the old name."""
        warnings.warn("Drive.make_new is called purge now", DeprecationWarning, stacklevel=2)
        self.purge(how)

    def save(self, path: str | os.PathLike[str], *, replace: bool = False) -> str:
        """Shuts the drive down and saves it in a file.

        Parameters
        ----------
        path : path
            The file.
        replace : bool
            True to replace a file that is there.

        Returns
        -------
        str
            The target that opens it again: ``"sim:./aged.ssd"``.

        Raises
        ------
        RefusedError
            When a file is there that may not be replaced.
        UnsupportedError
            Of a stack; its members can be saved.
        """
        place = os.fspath(path)
        self._handle.save(place, replace)
        return f"sim:{place}" if "/" in place else f"sim:./{place}"

    def __repr__(self) -> str:
        return f"<drive {self.name}: {self.capacity / 2**30:.1f} GiB, {self.history}>"

    def _repr_html_(self) -> str:
        rows = [[name, value] for name, value in self.facts.items()]
        rows.append(["history", self.history])
        amplification = self.write_amplification
        if amplification is not None:
            rows.append(["write amplification", f"{amplification:.4g}"])
        return _html.block(self.name, f"{self.capacity / 2**30:.1f} GiB", _html.table("", ["", ""], rows))


# `Drive.phase` and `Drive.trim` have an argument of this name.
_length = length
