"""Runs of experiments, and reports from files and the store."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Union

from . import _ssdlab
from ._drive import Drive
from ._errors import Error, Interrupted, UsageError
from ._profile import Profile
from ._quantities import Value
from ._quantities import settings as read_settings
from ._report import Report
from ._sweep import SweepResult

Progress = Callable[[str, float], Any]
"""Is called with the name of the step and the share of the whole that is done, from 0 to 1."""

Target = Union[str, "os.PathLike[str]", Profile, Drive]
"""A target as on the command line, a path on a real drive, a profile, or a drive."""


class Setting(NamedTuple):
    """A parameter of an experiment."""

    name: str
    kind: str
    full: str
    """Its value in the full protocol."""
    quick: str
    """Its value in the quick one."""
    meaning: str


class Experiment(NamedTuple):
    """A protocol that `ssdlab.run` runs."""

    name: str
    question: str
    source: str
    settings: dict[str, Setting]


def experiments() -> dict[str, Experiment]:
    """Every experiment by name, with its question, its source and its parameters."""
    found = {}
    for name, question, source, settings in _ssdlab.experiments():
        found[name] = Experiment(name, question, source, {it[0]: Setting(*it) for it in settings})
    return found


def target_text(target: str | os.PathLike[str] | Profile) -> str:
    """A target as the library reads it."""
    if isinstance(target, Profile):
        return target.target
    return os.fspath(target)


def run(
    experiment: str,
    target: Target = "sim:",
    *,
    quick: bool = False,
    settings: Mapping[str, Value] | None = None,
    file: str | os.PathLike[str] | None = None,
    seed: int = 1,
    purge: bool = True,
    allow_buffered: bool = False,
    create_file: bool = False,
    progress: Progress | None = None,
    make_new: bool | None = None,
) -> Report:
    """Puts a drive through a published protocol.

    The figures are those of ``ssdlab run`` with the same arguments, to the bit. Python's lock is not held
    meanwhile, and Ctrl-C ends the run.

    Parameters
    ----------
    experiment : str
        Its name; see `ssdlab.experiments`.
    target : str, path, Profile or Drive
        ``"sim:toshiba-xg5,spare=15%"`` and the like are simulated drives, new for this run. A path is a
        directory or a file on a real drive; block devices are left to the program, which asks first. A
        `Drive` is used itself, and is afterwards where the run has left it.
    quick : bool
        The quick protocol: seconds, on a drive made small where its volumes follow the size of the drive.
    settings : mapping, optional
        Parameters of the protocol by name. Text as on the command line; numbers are bytes and seconds.
    file : path, optional
        The file that the experiment is about, for ``job`` and ``replay``.
    seed : int
        Seed of every random choice.
    purge : bool
        Of a `Drive`: True if it is purged where the protocol asks for a new drive, so that what it went
        through plays no part; False to take it as it is.
    allow_buffered : bool
        Of a real drive: go on where the file system has no direct I/O.
    create_file : bool
        Of a path that is not there: have it created as a file, which is removed at the end.
    progress : callable, optional
        Is called with the step's name and the share that is done, from 0 to 1, a few times a second. What it
        raises ends the run.
    make_new : bool, optional
        The old name of `purge`.

    Returns
    -------
    Report

    Raises
    ------
    UsageError
        When a name, a key or a value is wrong; before anything runs.
    RefusedError
        When the target is a block device.
    UnsupportedError
        When the drive or the machine cannot do it, such as for want of memory.
    Interrupted
        On Ctrl-C; its ``result`` is the report of what was measured until then.
    """
    if make_new is not None:
        warnings.warn("the argument make_new is called purge now", DeprecationWarning, stacklevel=2)
        purge = make_new
    given = dict(settings or {})
    if file is not None:
        known = experiments().get(experiment)
        names = [it.name for it in known.settings.values() if it.kind == "file"] if known else []
        if known and not names:
            raise UsageError(f"{experiment} takes no file")
        given.update({name: os.fspath(file) for name in names})
    pairs = read_settings(experiment, given)
    try:
        if isinstance(target, Drive):
            return Report(target._handle.run(experiment, pairs, quick, seed, purge, progress))
        text = target_text(target)
        return Report(
            _ssdlab.run(experiment, text, pairs, quick, seed, allow_buffered, create_file, progress)
        )
    except (Error, Interrupted) as error:
        if isinstance(error.result, _ssdlab.Report):
            error.result = Report(error.result)
        raise


def load(
    source: str | int | os.PathLike[str],
    *more: str | os.PathLike[str],
    store: str | os.PathLike[str] | None = None,
) -> Any:
    """Loads what was stored: a report, a sweep, a kept run, or results of fio.

    Parameters
    ----------
    source : path, int or str
        A file of JSON: a report (``ssdlab run --json``), a sweep (``sweep.json``, or the directory of a
        sweep), or what fio wrote with ``--output-format=json+``. Or a kept run: its number, ``"last"``, or
        ``"last~1"`` for the one before.
    *more : path
        More results of fio, which make one report together.
    store : path, optional
        The file of kept runs; ``$SSDLAB_STORE`` or that in the user's data directory unless given.

    Returns
    -------
    Report or SweepResult

    Raises
    ------
    UsageError
        When there is no such file or run, or it is something else.
    """
    name = str(source) if isinstance(source, int) else os.fspath(source)
    is_run = isinstance(source, int) or name == "last" or name.startswith("last~") or name.isdigit()
    if is_run and not os.path.exists(name):
        path = os.fspath(store or _ssdlab.store_path())
        return Report(_ssdlab.from_store(name, path))
    if os.path.isdir(name):
        name = os.path.join(name, "sweep.json")
    texts = [_read(path) for path in (name, *(os.fspath(it) for it in more))]
    schema, is_fio = _what_it_is(texts[0])
    if is_fio or more:
        origin = name if not more else f"{name} .. {os.fspath(more[-1])}"
        return Report(_ssdlab.from_fio(texts, origin))
    if schema.startswith("ssdlab.sweep/"):
        return SweepResult(_ssdlab.Sweep.from_json(texts[0], name))
    return Report.from_json(texts[0], name)


def _read(path: str) -> str:
    try:
        # fio writes names of files as they are, in whatever encoding.
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _what_it_is(text: str) -> tuple[str, bool]:
    """The schema that a text of JSON says it has, and whether fio wrote it."""
    try:
        # fio may say a word before its JSON.
        document = json.loads(text[text.find("{") :])
    except ValueError:
        return "", '"fio version"' in text
    if not isinstance(document, dict):
        return "", False
    return str(document.get("schema", "")), "fio version" in document


def kept(store: str | os.PathLike[str] | None = None) -> Any:
    """The runs that were kept, as a data frame with a row for each, the newest first.

    Parameters
    ----------
    store : path, optional
        The file of kept runs; ``$SSDLAB_STORE`` or that in the user's data directory unless given.
    """
    import pandas as pd

    path = os.fspath(store or _ssdlab.store_path())
    return pd.DataFrame(json.loads(_ssdlab.kept(path)))
