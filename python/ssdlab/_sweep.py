"""Many runs of one experiment: how a result depends on a key, a setting, the target."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _html, _ssdlab
from ._errors import Error, ImpossiblePoints, Interrupted, UsageError
from ._profile import Profile
from ._quantities import Duration, Value, duration, kinds_of_settings, parameter, setting
from ._quantities import settings as read_settings
from ._report import Finding, Report
from ._tables import arrow, pandas

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

_NAMED = 5


class SweepResult:
    """What the runs of a sweep came to. `ssdlab.sweep` and `ssdlab.load` return it.

    Two results are equal if their JSON is: it holds no times of the machine, so that the same question gives
    the same bits.
    """

    def __init__(self, handle: _ssdlab.Sweep) -> None:
        self._handle = handle
        self._head: dict[str, Any] = json.loads(handle.head())
        self._rows = handle.rows()

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return str(self._head["experiment"])

    @property
    def keys(self) -> list[str]:
        """The keys that were varied."""
        return [it["key"] for it in self._head["dimensions"]]

    @property
    def measures(self) -> dict[str, str]:
        """The figures that runs measured, and the unit of each."""
        return {it["name"]: it["unit"] for it in self._head["measures"]}

    @property
    def charted(self) -> list[str]:
        """The figures to look at, the most telling first."""
        return [self._head["measures"][place]["name"] for place in self._head["charted"]]

    @property
    def interrupted(self) -> bool:
        """True if the sweep was ended before all runs were made."""
        return bool(self._head["interrupted"])

    @property
    def findings(self) -> list[Finding]:
        """Sentences that the sweep stands behind, the most important first."""
        return [Finding(it["level"], it["code"], it["text"]) for it in self._head["findings"]]

    @property
    def missing(self) -> pd.DataFrame:
        """The runs that were not made or failed, with the reason: columns as in `runs`, without figures."""
        runs = self._places()
        return runs[runs["state"] != "done"]

    def _places(self) -> pd.DataFrame:
        rows = []
        for values, target, runs in self._rows:
            for seed, key, state, error in runs:
                rows.append([*map(_number, values), target, seed, state, error, key])
        heads = [*self.keys, "drive", "seed", "state", "error", "key"]
        return pandas().DataFrame(rows, columns=heads)  # type: ignore[no-any-return]

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """What was measured: a row for each run, a column for each of `measures`; ``nan`` where nothing was."""
        import numpy as np

        return np.asarray(self._handle.values())

    @property
    def runs(self) -> pd.DataFrame:
        """A row for each run: the keys, ``drive``, ``seed``, ``state``, ``error``, ``key``, and every figure."""
        pd = pandas()
        names = [it["name"] for it in self._head["measures"]]
        figures = pd.DataFrame(self.values, columns=names, copy=False)
        return pd.concat([self._places(), figures], axis=1)  # type: ignore[no-any-return]

    def means(self, measure: str | None = None) -> pd.DataFrame:
        """The mean of a figure at each point, with its 95 % confidence interval (Student's t).

        Parameters
        ----------
        measure : str, optional
            A name of `measures`, or the column in it (``"write_amplification"``); the most telling one unless
            given.

        Returns
        -------
        pandas.DataFrame
            A row for each point: the keys, ``mean``, ``low``, ``high`` (``nan`` of a single run), ``runs``.
            Values of keys are numbers where all of them are: bytes, shares of 1, seconds stay text. The
            figure and its unit are in ``attrs["measure"]`` and ``attrs["unit"]``.

        Raises
        ------
        UsageError
            When no run has measured it.
        """
        import numpy as np

        place = self._place(measure)
        pd = pandas()
        keys = self.keys
        rows = [[*map(_number, values)] if keys else [target] for values, target, _ in self._rows]
        frame = pd.DataFrame(rows, columns=keys or ["drive"])
        figures = np.asarray(self._handle.estimates(place))
        for column, name in enumerate(("mean", "low", "high")):
            frame[name] = figures[:, column]
        frame["runs"] = figures[:, 3].astype(int)
        measured = self._head["measures"][place]
        frame.attrs.update(measure=measured["name"], unit=measured["unit"], label=measured["label"])
        return frame  # type: ignore[no-any-return]

    def _place(self, measure: str | None) -> int:
        names = [it["name"] for it in self._head["measures"]]
        if measure is None:
            if not self._head["charted"]:
                raise UsageError("no run has measured anything")
            return int(self._head["charted"][0])
        if measure in names:
            return names.index(measure)
        for place in [*self._head["charted"], *range(len(names))]:
            if names[place].rpartition(".")[2] == measure:
                return int(place)
        raise UsageError(f"no run measured {measure!r}; there are: {', '.join(names) or 'none'}")

    def to_json(self) -> str:
        """The JSON that ``ssdlab sweep --json`` prints, by the schema ``ssdlab.sweep/1``."""
        return self._handle.to_json()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The result as a page with charts; also written to `path`, if that is given."""
        page = self._handle.html()
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes ``sweep.json``, ``runs.csv``, ``means.csv`` and ``sweep.html`` to a directory."""
        self._handle.write(os.fspath(directory))

    def to_arrow(self) -> Any:
        """`runs` as a `pyarrow.Table`, with the unit of each figure in the metadata of its field.

        Needs pyarrow (``pip install 'ssdlab[arrow]'``).
        """
        pa = arrow()
        runs = self.runs
        for key in self.keys:
            # A key that is a number at some points and a word at others is words.
            if len({isinstance(it, str) for it in runs[key]}) == 2:
                runs[key] = runs[key].map(str)
        table = pa.Table.from_pandas(runs, preserve_index=False)
        units = [self.measures.get(field.name) for field in table.schema]
        fields = [
            field.with_metadata({"unit": unit}) if unit else field for field, unit in zip(table.schema, units)
        ]
        return table.cast(pa.schema(fields, metadata=table.schema.metadata))

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_arrow` as a Parquet file, which pandas, polars, DuckDB and Spark read.

        Files of several sweeps over the same keys, in one directory, are one data set.
        """
        table = self.to_arrow()
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, os.fspath(path))

    def report(self) -> Report:
        """The result as a report, which can be kept and compared as those of runs."""
        return Report(self._handle.report())

    def __repr__(self) -> str:
        done = sum(run[2] == "done" for _, _, runs in self._rows for run in runs)
        all_ = sum(len(runs) for _, _, runs in self._rows)
        return f"<sweep of {self.experiment} over {', '.join(self.keys) or 'seeds'}: {done} of {all_} runs>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SweepResult) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __reduce__(self) -> Any:
        return (_from_json, (self.to_json(),))

    def _repr_html_(self) -> str:
        parts = [_html.findings((it.level, it.text) for it in self.findings)]
        for name in self.charted:
            means = self.means(name)
            unit = means.attrs["unit"]
            shown = min(len(means), 24)
            heads = [f"{it} ({unit})" if unit and it in ("mean", "low", "high") else it for it in map(str, means)]
            rows = [[_html.number(cell) for cell in row] for row in means.values.tolist()[:shown]]
            parts.append(_html.table(means.attrs["label"], heads, rows, len(means) - shown))
        return _html.block(repr(self)[1:-1], ", ".join(self._head["targets"]), *parts)


def _from_json(text: str) -> SweepResult:
    return SweepResult(_ssdlab.Sweep.from_json(text, "a pickled sweep"))


def _number(text: str) -> Any:
    """A value of a key: a number where it is one, a share of 1 where it is in per cent."""
    try:
        if text.endswith("%"):
            return round(float(text[:-1]) / 100, 12)
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


def question(
    experiment: str,
    targets: Sequence[str],
    vary: Mapping[str, Iterable[Value]],
    settings: Mapping[str, Value] | None,
    quick: bool,
    seed: int,
    seeds: int,
    points: int | None,
    random: bool,
) -> dict[str, Any]:
    """A question as the library reads it; it can be pickled."""
    kinds = kinds_of_settings(experiment)
    varied = []
    for key, values in vary.items():
        if isinstance(values, str):
            raise UsageError(f"{key} is varied over {values!r}; give its values as a list")
        read = []
        for value in values:
            if isinstance(value, Profile):
                read.append(value.target)
            elif key in kinds:
                read.append(setting(kinds[key], key, value))
            else:
                read.append(parameter(key, value))
        varied.append((key, read))
    return {
        "experiment": experiment,
        "targets": list(targets),
        "vary": varied,
        "set": read_settings(experiment, settings),
        "quick": quick,
        "seed": seed,
        "seeds": seeds,
        "points": points,
        "random": random,
    }


def sweep(
    experiment: str,
    targets: str | Profile | Sequence[str | Profile] | None = None,
    *,
    vary: Mapping[str, Iterable[Value]] | None = None,
    settings: Mapping[str, Value] | None = None,
    quick: bool = False,
    seed: int = 1,
    seeds: int = 1,
    points: int | None = None,
    random: bool = False,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    rest: Duration = 0.0,
    skip_impossible: bool = False,
    client: Any = None,
    batch: int | None = None,
    dataset: str | os.PathLike[str] | None = None,
    progress: Callable[[str, float], Any] | None = None,
) -> SweepResult:
    """Runs an experiment at many points, several times each, and puts the runs together.

    The figures are those of ``ssdlab sweep`` with the same arguments, to the bit, whatever the number of
    processors or workers. A run is named by the SHA-256 of version, profile, protocol, settings and seed.

    Parameters
    ----------
    experiment : str
        Its name; see `ssdlab.experiments`.
    targets : str, Profile or a list of them, optional
        The drives; ``"sim:"`` unless given. Several are varied like a key.
    vary : mapping, optional
        Values by key: a parameter of the experiment, of simulated drives, an option of a stack, or
        ``"target"``. Text as on the command line; numbers are bytes, seconds, and shares of 1 for spare.
    settings : mapping, optional
        What else of the protocol is changed.
    quick : bool
        The quick protocol.
    seed : int
        The seed of the first run of each point; those after it count up.
    seeds : int
        Runs of each point.
    points : int, optional
        So many points of the grid, as a Latin hypercube, instead of all.
    random : bool
        True to draw these points instead.
    jobs : int, optional
        Runs at a time; as many as there are processors unless given, and as fit into memory.
    out : path, optional
        Directory of the results: a file for each run, and the tables and page of the sweep.
    resume : bool
        True to go on with what `out` holds.
    rest : float or str
        How long a real drive is left alone before each run but the first, in seconds.
    skip_impossible : bool
        True to run the other points where some cannot be, with a warning; those count as failed.
    client : dask.distributed.Client, optional
        Has the runs made by the workers of a cluster, in batches; needs ``pip install 'ssdlab[dask]'``.
    batch : int, optional
        Runs of a task on a cluster; chosen by how many there are unless given.
    dataset : path, optional
        Directory, under the same path on all workers, that they write figures, curves and latencies of every run
        to, as Parquet; needs `client`, and pyarrow.
    progress : callable, optional
        Is called with ``""`` and the share that is done, a few times a second.

    Returns
    -------
    SweepResult
        Runs that failed, or were lost with a worker, are named in its ``missing``.

    Raises
    ------
    UsageError
        When a key is wrong, nothing is varied, or points cannot be; before anything runs.
    Interrupted
        On Ctrl-C; its ``result`` is the sweep of what was measured until then.
    IoError
        When `out` cannot be written to, such as a full disk; its ``result`` is the sweep.

    Examples
    --------
    >>> import ssdlab
    >>> result = ssdlab.sweep(
    ...     "fragmentation", "sim:,scale=1/64", vary={"spare": ["7%", "28%"]}, quick=True, seeds=2
    ... )
    >>> list(result.means().columns)
    ['spare', 'mean', 'low', 'high', 'runs']
    """
    varied = dict(vary or {})
    if targets is None:
        named: list[str] = [] if "target" in varied else ["sim:"]
    elif isinstance(targets, (str, Profile)):
        named = [_target(targets)]
    else:
        named = [_target(one) for one in targets]
    asked = question(experiment, named, varied, settings, quick, seed, seeds, points, random)
    design = _ssdlab.Design(asked)
    _refuse_impossible(design, skip_impossible)
    place = None if out is None else os.fspath(out)
    if client is not None:
        from ._cluster import carry_out

        where = None if dataset is None else os.path.abspath(dataset)
        result = carry_out(design, asked, client, place, resume, batch, where, progress)
    elif dataset is not None:
        raise UsageError("dataset needs client, as the workers of a cluster write it")
    else:
        try:
            result = SweepResult(design.run(jobs, place, resume, duration("rest", rest), progress))
        except Interrupted as interrupted:
            if isinstance(interrupted.result, _ssdlab.Sweep):
                interrupted.result = SweepResult(interrupted.result)
            raise
    if place is not None:
        try:
            result.save(place)
        except Error as error:
            error.result = result
            raise
    return result


def _target(target: str | Profile) -> str:
    return target.target if isinstance(target, Profile) else os.fspath(target)


def _refuse_impossible(design: _ssdlab.Design, skip: bool) -> None:
    impossible = design.impossible()
    if not impossible:
        return
    all_, *_ = design.counts()
    named = "; ".join(f"{words}: {why}" for words, why in impossible[:_NAMED])
    if len(impossible) > _NAMED:
        named += f"; and {len(impossible) - _NAMED} more"
    if len(impossible) == all_:
        what = "this cannot be run" if all_ == 1 else "none of the points can be run"
        raise UsageError(f"{what}; {named}")
    words = f"{len(impossible)} of {all_} points cannot be run; {named}"
    if not skip:
        raise UsageError(f"{words} (skip_impossible=True runs the others)")
    warnings.warn(words, ImpossiblePoints, stacklevel=3)
