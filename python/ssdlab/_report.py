"""Reports of runs, and several of them side by side."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _html, _ssdlab
from ._errors import UsageError
from ._tables import Table, Tables, pandas

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

_ROWS_SHOWN = 12


class Finding(NamedTuple):
    """A sentence that a report stands behind."""

    level: str
    """``"info"``, ``"notice"``, ``"warning"`` or ``"problem"``."""
    code: str
    """A stable name for scripts, such as ``"reads-slower"``."""
    text: str
    """The sentence."""


class Series:
    """A curve of a report.

    Attributes
    ----------
    name : str
        Its name, such as ``"read_throughput"``.
    unit_x, unit_y : str
        The units of the axes.
    """

    def __init__(self, name: str, unit_x: str, unit_y: str, x: Any, y: Any) -> None:
        self.name = name
        self.unit_x = unit_x
        self.unit_y = unit_y
        self._x = x
        self._y = y

    @property
    def x(self) -> npt.NDArray[np.float64]:
        """Where the points lie, in `unit_x`; not copied, and not to be written to."""
        import numpy as np

        return np.asarray(self._x)

    @property
    def y(self) -> npt.NDArray[np.float64]:
        """What was measured there, in `unit_y`; as long as `x`."""
        import numpy as np

        return np.asarray(self._y)

    def __len__(self) -> int:
        return len(self._x)

    def to_pandas(self) -> pd.Series[float]:
        """The curve as a pandas series: `y` over `x`."""
        pd = pandas()
        index = pd.Index(self.x, name=self.unit_x)
        return pd.Series(self.y, index=index, name=self.name)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<series {self.name!r}: {len(self)} points, {self.unit_y} over {self.unit_x}>"


class Histogram:
    """Latencies of one kind of request in one part of a run.

    Attributes
    ----------
    name : str
        Its name, such as ``"read_after_4000_mib"``.
    count : int
        Requests counted.
    mean_us : float
        Their mean in microseconds.
    percentiles_us : dict of float to float
        Latency in microseconds by percentile, those that the number of requests supports.
    """

    def __init__(
        self,
        name: str,
        count: int,
        mean_us: float,
        percentiles: list[tuple[float, float]],
        edges: Any,
        counts: Any,
    ) -> None:
        self.name = name
        self.count = count
        self.mean_us = mean_us
        self.percentiles_us = dict(percentiles)
        self._edges = edges
        self._counts = counts

    @property
    def edges_us(self) -> npt.NDArray[np.float64]:
        """The upper edge of each filled bucket in microseconds, rising; not copied."""
        import numpy as np

        return np.asarray(self._edges)

    @property
    def counts(self) -> npt.NDArray[np.uint64]:
        """Requests in each of those buckets; not copied."""
        import numpy as np

        return np.asarray(self._counts)

    def to_pandas(self) -> pd.Series[int]:
        """Requests by upper edge in microseconds."""
        pd = pandas()
        index = pd.Index(self.edges_us, name="up_to_us")
        return pd.Series(self.counts, index=index, name=self.name)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<histogram {self.name!r}: {self.count} requests, mean {self.mean_us:.4g} us>"


class ByName(Mapping[str, Any]):
    """Parts of a report by name; a name that comes twice means the first."""

    def __init__(self, kind: str, parts: list[Any]) -> None:
        self._kind = kind
        self._parts: dict[str, Any] = {}
        for part in parts:
            self._parts.setdefault(part.name, part)

    def __getitem__(self, name: str) -> Any:
        if name not in self._parts:
            known = ", ".join(self._parts) or "none"
            raise KeyError(f"there is no {self._kind} {name!r}; there are: {known}")
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __repr__(self) -> str:
        return f"<{self._kind}: {', '.join(self._parts) or 'none'}>"


class Report:
    """What one run found. `ssdlab.run` and `ssdlab.load` return it.

    Two reports are equal if their JSON is. A report can be pickled.
    """

    def __init__(self, handle: _ssdlab.Report) -> None:
        self._handle = handle
        self._head: dict[str, Any] | None = None
        self._tables: Tables | None = None

    @classmethod
    def from_json(cls, text: str, origin: str = "the text") -> Report:
        """Reads a report back from its JSON.

        Parameters
        ----------
        text : str
            JSON of the schema ``ssdlab.report/1``.
        origin : str
            What the text came from, for errors.

        Raises
        ------
        UsageError
            When it is no report; with the place.
        """
        return cls(_ssdlab.Report.from_json(text, origin))

    def _of_head(self, name: str) -> Any:
        head = self._head
        if head is None:
            head = self._head = json.loads(self._handle.head())
        return head[name]

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return str(self._of_head("experiment"))

    @property
    def target(self) -> dict[str, Any]:
        """What was measured: its kind, name, capacity in bytes, caveats and facts."""
        return dict(self._of_head("target"))

    @property
    def seed(self) -> int:
        """The seed of every random choice."""
        return int(self._of_head("seed"))

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that the protocol ran with, as they would be given in ``settings``."""
        return {one["name"]: one["value"] for one in self._of_head("parameters")}

    @property
    def shortened(self) -> bool:
        """True if the protocol was shortened, so that figures are not comparable with published ones."""
        return bool(self._of_head("shortened"))

    @property
    def interrupted(self) -> bool:
        """True if the run was ended before its protocol was through."""
        return bool(self._of_head("interrupted"))

    @property
    def started(self) -> str:
        """When it started: RFC 3339, UTC."""
        return str(self._of_head("started"))

    @property
    def host(self) -> dict[str, Any]:
        """The machine that it ran on."""
        return dict(self._of_head("host"))

    @property
    def findings(self) -> list[Finding]:
        """Sentences that the report stands behind, the most important first."""
        return [Finding(it["level"], it["code"], it["text"]) for it in self._of_head("findings")]

    @property
    def counters(self) -> dict[str, Any] | None:
        """What the inside of a simulated drive counted, in mapping units; None of a real one."""
        return self._of_head("counters")  # type: ignore[no-any-return]

    @property
    def write_amplification(self) -> float | None:
        """Flash writes to host writes over the whole run; None of a real drive."""
        return (self.counters or {}).get("write_amplification")

    @property
    def health(self) -> dict[str, Any] | None:
        """How worn a simulated drive was at the end, by the names of the NVMe health log."""
        return self._of_head("health")  # type: ignore[no-any-return]

    @property
    def attribution(self) -> dict[str, dict[str, float]] | None:
        """Where the time of requests went: seconds by part, for reads, writes and others."""
        kinds = self._of_head("attribution")
        if kinds is None:
            return None
        return {kind: {it["name"]: it["seconds"] for it in parts} for kind, parts in kinds.items()}

    @property
    def cost(self) -> dict[str, Any]:
        """What the run cost: wall, processor and simulated seconds, requests, memory in bytes."""
        return dict(self._of_head("cost"))

    @property
    def tables(self) -> Tables:
        """The tables as data frames by name, the most important first; units are in their ``attrs``."""
        if self._tables is None:
            self._tables = Tables(self._handle)
        return self._tables

    @property
    def series(self) -> Mapping[str, Series]:
        """The curves by name."""
        return ByName("series", [Series(*one) for one in self._handle.series()])

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The latency histograms by name."""
        return ByName("histogram", [Histogram(*one) for one in self._handle.histograms()])

    def to_json(self) -> str:
        """The JSON that ``ssdlab run --json`` prints, by the schema ``ssdlab.report/1``."""
        return self._handle.to_json()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as a page with charts; also written to `path`, if that is given."""
        page = self._handle.html()
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON to a file, which `ssdlab.load` and ``ssdlab compare`` read."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_json())

    def keep(self, store: str | os.PathLike[str] | None = None) -> int:
        """Keeps the report among the runs that the program ``ssdlab`` lists, shows and compares.

        Parameters
        ----------
        store : path, optional
            The file of runs; ``$SSDLAB_STORE`` or that in the user's data directory unless given.

        Returns
        -------
        int
            The number of the run.
        """
        return _ssdlab.keep(self._handle, os.fspath(store or _ssdlab.store_path()))

    def __str__(self) -> str:
        return self._handle.text(100)

    def __repr__(self) -> str:
        found = self.findings
        headline = f": {found[0].text}" if found else ""
        return f"<{self.experiment} on {self.target['name']}{headline}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __reduce__(self) -> Any:
        return (Report.from_json, (self.to_json(), "a pickled report"))

    def _repr_html_(self) -> str:
        meta = ", ".join(f"{name}={value}" for name, value in self.parameters.items() if value)
        title = f"{self.experiment} on {self.target['name']}"
        parts = [_html.findings((it.level, it.text) for it in self.findings)]
        parts += [_table_html(self.tables.raw(name)) for name in self.tables]
        return _html.block(title, f"{meta}, seed={self.seed}", *parts)


def _table_html(table: Table) -> str:
    heads = [f"{name} ({unit})" if unit else name for name, unit in table.units.items()]
    shown = min(len(table), _ROWS_SHOWN)
    columns = []
    for name in table.units:
        values, gaps = table.numpy(name)[:shown].tolist(), table.missing(name)[:shown].tolist()
        columns.append([_html.number(None if gap else it) for it, gap in zip(values, gaps)])
    return _html.table(table.name, heads, list(zip(*columns)), len(table) - shown)


class Comparison:
    """Several runs of one experiment side by side. `ssdlab.compare` returns it."""

    def __init__(self, handle: _ssdlab.Comparison) -> None:
        self._handle = handle
        self._document: dict[str, Any] = json.loads(handle.to_json())
        self.tables = Tables(handle)

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs, each with the label that it has in the comparison."""
        return list(self._document["runs"])

    @property
    def findings(self) -> list[Finding]:
        """What the comparison shows, after what stands against making it."""
        return [Finding(it["level"], it["code"], it["text"]) for it in self._document["findings"]]

    def to_json(self) -> str:
        """The JSON that ``ssdlab compare --json`` prints."""
        return self._handle.to_json()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The comparison as a page with charts; also written to `path`, if that is given."""
        page = self._handle.html()
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def __str__(self) -> str:
        return self._handle.text(100)

    def __repr__(self) -> str:
        labels = ", ".join(run["label"] for run in self.runs)
        return f"<comparison of {self._document['experiment']}: {labels}>"

    def _repr_html_(self) -> str:
        labels = ", ".join(run["label"] for run in self.runs)
        parts = [_html.findings((it.level, it.text) for it in self.findings)]
        parts += [_table_html(self.tables.raw(name)) for name in self.tables]
        return _html.block(str(self._document["experiment"]), labels, *parts)


def compare(*reports: Report, labels: list[str] | None = None) -> Comparison:
    """Puts reports of one experiment side by side.

    Parameters
    ----------
    *reports : Report
        Two or more.
    labels : list of str, optional
        What to call them; the names of their targets unless given. A label given twice gets what differs.

    Returns
    -------
    Comparison

    Raises
    ------
    UsageError
        When there are less than two, or they are of different experiments.
    """
    names = [str(report.target["name"]) for report in reports] if labels is None else labels
    if len(names) != len(reports):
        raise UsageError(f"{len(names)} labels for {len(reports)} reports")
    return Comparison(_ssdlab.compare(names, [report._handle for report in reports]))
