"""A sweep on a cluster: runs in batches, as tasks of dask.distributed.

A task makes some runs and returns their figures by key; a data set takes the whole reports (`_dataset`). The process that asked keeps them, as files that
appear when they are whole, so that a sweep that lost workers, or was ended, goes on with ``resume=True``.
Seeds are part of the question: no figure depends on which worker made a run, or on their order.
"""

from __future__ import annotations

import pickle
import tempfile
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from . import _dataset, _ssdlab
from ._errors import Error, Interrupted, UnsupportedError, UsageError
from ._report import Report
from ._tables import arrow

if TYPE_CHECKING:
    from ._sweep import SweepResult

# Runs of a task at most: small enough that a worker that is lost takes little with it.
_BATCH_MOST = 50
# Tasks for each thread of the cluster, so that the slowest of them is not waited for long.
_TASKS_A_THREAD = 4
# Threads to cut batches for where no worker has come yet.
_THREADS_EXPECTED = 32

Run = tuple[str, int, int]
"""The key of a run, its point and its seed."""

_designs: dict[str, _ssdlab.Design] = {}
"""On a worker: the points of the sweep at hand, by its name, so that its tasks lay them out once."""


def _make(
    version: str, sweep: str, asked: dict[str, Any], dataset: str | None, runs: list[Run]
) -> list[tuple[str, str | None, str]]:
    """Makes some runs, on a worker: key, figures as JSON, and why there are none. Their reports go to `dataset`."""
    if _ssdlab.__version__ != version:
        words = f"this worker has ssdlab {_ssdlab.__version__}, but the sweep was made with {version}"
        raise UnsupportedError(words)
    design = _designs.get(sweep)
    if design is None:
        design = _ssdlab.Design(asked)
        _designs.clear()
        _designs[sweep] = design
    made: list[tuple[str, str | None, str]] = []
    whole: list[_dataset.Made] = []
    for key, point, seed in runs:
        try:
            measured, report = design.run_one(key, point, seed)
        except Exception as error:
            made.append((key, None, str(error)))
            continue
        made.append((key, measured, ""))
        if dataset is not None:
            whole.append(_dataset.Made(key, seed, *design.place(point), measured, Report(report)))
    if dataset is not None:
        _dataset.write(dataset, whole)
    return made


def _shipped() -> Callable[..., list[tuple[str, str | None, str]]]:
    """`_make` for workers: a function that is sent as it is, so that a worker without ssdlab says so.

    Of one that it would have to import, and cannot, Dask never hears again. It takes what `_make` takes as pickled
    bytes: Dask and its scheduler look at each value of a list in turn.
    """

    def make(arguments: bytes) -> list[tuple[str, str | None, str]]:
        import pickle

        from ssdlab import _cluster

        return _cluster._make(*pickle.loads(arguments))

    return make


def carry_out(
    design: _ssdlab.Design,
    asked: dict[str, Any],
    client: Any,
    out: str | None,
    resume: bool,
    batch: int | None,
    dataset: str | None,
    progress: Callable[[str, float], Any] | None,
) -> SweepResult:
    """Has the runs made by the workers of `client`, and puts together what came of them."""
    from ._sweep import SweepResult

    try:
        import distributed
    except ImportError:
        raise UnsupportedError("this needs dask: pip install 'ssdlab[dask]'") from None
    as_completed: Callable[[list[Any]], Iterable[Any]] = distributed.as_completed
    if batch is not None and batch < 1:
        raise UsageError(f"batch is {batch}; it must be at least 1")
    with tempfile.TemporaryDirectory(prefix="ssdlab-") as spare:
        place = out or spare
        kept = _ssdlab.Kept(place, resume)
        runs = design.keys()
        if dataset is None:
            runs = [run for run in runs if not kept.holds(run[0])]
        else:
            arrow()
            there = _dataset.take_over(dataset, {key for key, _, _ in runs}, kept, resume)
            runs = [run for run in runs if run[0] not in there]
        size = batch or _size(len(runs), client)
        batches = [runs[at : at + size] for at in range(0, len(runs), size)]
        sweep = f"ssdlab-{uuid.uuid4().hex}"
        make = _shipped()
        # Names of their own: a task of an earlier call that failed may still be known to the scheduler.
        waiting = {
            client.submit(
                make,
                pickle.dumps((_ssdlab.__version__, sweep, asked, dataset, some)),
                pure=False,
                key=f"{sweep}-{number}",
            ): some
            for number, some in enumerate(batches)
        }
        failed: dict[str, str] = {}
        ended = 0
        try:
            for future in as_completed(list(waiting)):
                # A task that nobody holds any more is forgotten by the scheduler, and its figures with it.
                some = waiting.pop(future)
                failed.update(_keep(kept, future, some))
                ended += len(some)
                if progress is not None:
                    progress("", ended / len(runs))
        except KeyboardInterrupt as interrupted:
            result = SweepResult(design.collect(place, failed))
            words = "interrupted; with out=DIRECTORY, resume=True continues"
            error = Interrupted(words)
            error.result = result
            raise error from interrupted
        finally:
            if waiting:
                client.cancel(list(waiting))
        return SweepResult(design.collect(place, failed))


def _keep(kept: _ssdlab.Kept, future: Any, runs: list[Run]) -> dict[str, str]:
    """Keeps the figures of a task that ended; returns by key why some are not there."""
    from distributed.comm.core import CommClosedError

    try:
        made = future.result()
    except Exception as error:
        why = f"its task was lost: {type(error).__name__}: {error}"
        # Of a task that Dask has cancelled by itself, or has no way left to ask for.
        if getattr(error, "reason", "") == "scheduler-connection-lost" or isinstance(error, CommClosedError):
            why = "the scheduler was lost"
        return {key: why for key, _, _ in runs}
    failed = {}
    for key, figures, why in made:
        if figures is None:
            failed[key] = why
            continue
        try:
            kept.keep(key, figures)
        except Error as error:
            failed[key] = f"its result cannot be saved: {error}"
    return failed


def _size(runs: int, client: Any) -> int:
    threads = sum(client.nthreads().values()) or _THREADS_EXPECTED
    return max(1, min(_BATCH_MOST, -(-runs // (threads * _TASKS_A_THREAD))))
