"""A data set of whole runs, as Parquet: what is too much to be sent to whoever asked for a sweep.

Each task of a cluster writes one file to each of four directories: ``figures``, ``curves``, ``latencies``, and
``runs``, which is written last and vouches for the others. Every row begins with the key of its run, its drive,
its seed, and the values of what was varied.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from . import _ssdlab
from ._errors import IoError, UsageError
from ._report import Report
from ._tables import arrow

_PARTS = ("figures", "curves", "latencies")
_WHOLE = "runs"


class Made(NamedTuple):
    """A run that was made."""

    key: str
    seed: int
    target: str
    values: list[tuple[str, str]]
    measured: str
    """Its figures, as the sweep keeps them."""
    report: Report


def _rows(made: Made) -> dict[str, list[tuple[Any, ...]]]:
    measures = json.loads(made.measured)["measures"]
    return {
        "figures": [(it["name"], it["unit"], it["value"]) for it in measures],
        "curves": [
            (name, curve.unit_x, x, curve.unit_y, y)
            for name, curve in made.report.series.items()
            for x, y in zip(curve.x.tolist(), curve.y.tolist())
        ],
        "latencies": [
            (name, up_to, requests)
            for name, histogram in made.report.histograms.items()
            for up_to, requests in zip(histogram.edges_us.tolist(), histogram.counts.tolist())
        ],
        _WHOLE: [(made.measured,)],
    }


def _columns(part: str) -> list[tuple[str, Any]]:
    pa = arrow()
    text, number = pa.string(), pa.float64()
    columns = {
        "figures": [("figure", text), ("unit", text), ("value", number)],
        "curves": [("curve", text), ("unit_x", text), ("x", number), ("unit_y", text), ("y", number)],
        "latencies": [("histogram", text), ("up_to_us", number), ("requests", pa.uint64())],
        _WHOLE: [("measured", text)],
    }
    return columns[part]


def write(directory: str, runs: list[Made]) -> None:
    """Writes some runs, on a worker: all of them, or, for whoever reads the data set later, none.

    The files are named by the keys of the runs: a task that is carried out twice leaves them once.
    """
    if not runs:
        return
    pa = arrow()
    import pyarrow.parquet

    name = hashlib.sha256(" ".join(it.key for it in runs).encode()).hexdigest()
    heads = [("key", pa.string()), ("drive", pa.string()), ("seed", pa.uint64())]
    heads += [(key, pa.string()) for key, _ in runs[0].values]
    rows: dict[str, list[tuple[Any, ...]]] = {part: [] for part in (*_PARTS, _WHOLE)}
    for made in runs:
        head = (made.key, made.target, made.seed, *(value for _, value in made.values))
        for part, tails in _rows(made).items():
            rows[part] += [head + tail for tail in tails]
    for part in (*_PARTS, _WHOLE):
        columns = heads + _columns(part)
        cells = list(zip(*rows[part])) or [()] * len(columns)
        arrays = [pa.array(column, kind) for column, (_, kind) in zip(cells, columns)]
        table = pa.Table.from_arrays(arrays, names=[column for column, _ in columns])
        place = Path(directory, part)
        place.mkdir(parents=True, exist_ok=True)
        # Readers of Parquet leave names with a dot aside.
        unfinished = place / f".{name}-{uuid.uuid4().hex}"
        try:
            pyarrow.parquet.write_table(table, unfinished)
            os.replace(unfinished, place / f"{name}.parquet")
        finally:
            unfinished.unlink(missing_ok=True)


def take_over(directory: str, wanted: set[str], kept: _ssdlab.Kept, resume: bool) -> set[str]:
    """Returns the keys of the wanted runs that the data set holds, and sees to it that `kept` holds them, too.

    What a task has left unfinished is removed.

    Raises
    ------
    UsageError
        When the data set holds runs, and `resume` is false.
    IoError
        When it cannot be read.
    """
    import pyarrow.parquet

    place = Path(directory)
    files = sorted((place / _WHOLE).glob("*.parquet"))
    if files and not resume:
        raise UsageError(f"{directory} already holds runs; resume=True makes the missing ones")
    found = set()
    try:
        for file in files:
            table = pyarrow.parquet.read_table(file, columns=["key", "measured"])
            for key, measured in zip(*(column.to_pylist() for column in table.columns)):
                if key in wanted:
                    found.add(key)
                    if not kept.holds(key):
                        kept.keep(key, measured)
        whole = {file.name for file in files}
        for part in (*_PARTS, _WHOLE):
            for file in (place / part).glob("*"):
                if file.name not in whole:
                    file.unlink()
    except (OSError, pyarrow.ArrowException) as error:
        raise IoError(f"the data set {directory} cannot be read: {error}") from error
    return found
