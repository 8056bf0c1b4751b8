"""Sweeps on a cluster: the same bits whoever makes the runs, and what happens when something of it is lost."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import ssdlab
from support import SMALL, needs

distributed = needs("distributed", "sweeps on a cluster")

SPARES = ["7%", "15%", "28%"]
# Twelve runs of a quarter of a second.
QUESTION = {"targets": SMALL, "vary": {"spare": SPARES}, "quick": True, "seeds": 4}


@pytest.fixture(scope="module")
def swept():
    return ssdlab.sweep("fragmentation", **QUESTION)


@contextmanager
def local_cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", worker_dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with local_cluster() as client:
        yield client


def files(out: Path) -> dict[str, int]:
    """The runs that a directory holds, and when each was written."""
    return {it.name: it.stat().st_mtime_ns for it in (out / "runs").iterdir()}


def test_program_python_joblib_and_dask_give_the_same_bits(cli, client, swept):
    words = ["sweep", "fragmentation", SMALL, "--quick", "--vary", "spare=7%,15%,28%", "--seeds", "4", "--json"]
    printed = cli(*words)
    assert swept.to_json() == printed
    told = []
    on_dask = ssdlab.sweep(
        "fragmentation", **QUESTION, client=client, batch=5, progress=lambda _, share: told.append(share)
    )
    assert on_dask.to_json() == printed
    assert len(told) == 3 and told[-1] == 1.0
    joblib = needs("joblib", "runs by joblib")
    runs = swept.runs
    run = joblib.delayed(ssdlab.run)
    jobs = [run("fragmentation", row.drive, quick=True, seed=row.seed) for row in runs.itertuples()]
    reports = joblib.Parallel(n_jobs=2)(jobs)
    compared = 0
    for row, report in zip(runs.to_dict("records"), reports):
        tables = {table["name"]: table for table in json.loads(report.to_json())["tables"]}
        for name in swept.measures:
            parts = re.fullmatch(r"(\w+)\[(.*)\]\.(\w+)", name)
            if parts is None or parts[1] not in tables:
                continue
            table, rule, column = parts.groups()
            heads = [it["name"] for it in tables[table]["columns"]]
            found = [it[heads.index(column)] for it in tables[table]["rows"] if str(it[0]) == rule]
            assert found == [row[name]], name
            compared += 1
    assert compared > 12


def test_only_what_is_missing_is_made(client, tmp_path, swept):
    ssdlab.sweep("fragmentation", **{**QUESTION, "vary": {"spare": SPARES[:2]}}, out=tmp_path)
    before = files(tmp_path)
    resumed = ssdlab.sweep("fragmentation", **QUESTION, out=tmp_path, resume=True, client=client)
    assert resumed == swept
    after = files(tmp_path)
    assert len(after) == 12 and all(after[name] == when for name, when in before.items())


def test_workers_write_what_is_too_much_to_be_sent(client, tmp_path, swept):
    dataset = needs("pyarrow.dataset", "data sets of runs")
    place, out = tmp_path / "set", tmp_path / "out"
    first = ssdlab.sweep("fragmentation", **QUESTION, out=out, client=client, batch=5, dataset=place)
    assert first == swept

    def read(part):
        return dataset.dataset(place / part, format="parquet").to_table().to_pandas()

    runs = read("runs")
    assert sorted(runs["key"]) == sorted(swept.runs["key"]) and set(runs["spare"]) == set(SPARES)
    figures = read("figures").pivot(index="key", columns="figure", values="value")
    for name in swept.measures:
        expected = swept.runs.set_index("key")[name].reindex(figures.index)
        assert figures[name].equals(expected.astype(float).rename(name)), name
    one = swept.runs.iloc[7]
    report = ssdlab.run("fragmentation", one.drive, quick=True, seed=int(one.seed))
    curves = read("curves")
    for name, curve in report.series.items():
        found = curves[(curves["key"] == one.key) & (curves["curve"] == name)]
        assert found["x"].tolist() == curve.x.tolist() and found["y"].tolist() == curve.y.tolist()
    latencies = read("latencies")
    for name, histogram in report.histograms.items():
        found = latencies[(latencies["key"] == one.key) & (latencies["histogram"] == name)]
        assert found["requests"].sum() == histogram.count
    assert len(report.series) > 0 and len(report.histograms) > 0

    with pytest.raises(ssdlab.UsageError, match="resume=True"):
        ssdlab.sweep("fragmentation", **QUESTION, client=client, dataset=place)
    # Whoever asked has lost all, and a task has left half of what it wrote: nothing is made twice.
    before = {file: file.stat().st_mtime_ns for file in place.glob("*/*")}
    whole = next((place / "runs").iterdir())
    lost = set(runs.loc[runs["key"].isin(dataset.dataset(whole).to_table()["key"].to_pylist()), "key"])
    whole.unlink()
    (place / "curves" / ".unfinished").write_bytes(b"PAR1")
    made = []
    resumed = ssdlab.sweep(
        "fragmentation",
        **QUESTION,
        out=tmp_path / "new",
        resume=True,
        client=client,
        batch=1,
        dataset=place,
        progress=lambda _, share: made.append(share),
    )
    assert resumed == swept and len(made) == len(lost) < 12
    assert sorted(read("runs")["key"]) == sorted(runs["key"])
    assert len(read("figures")) == figures.size
    assert not (place / "curves" / ".unfinished").exists()
    unchanged = [file for file, when in before.items() if file.exists() and file.stat().st_mtime_ns == when]
    assert len(unchanged) == len(before) - 4


def test_a_data_set_needs_workers():
    with pytest.raises(ssdlab.UsageError, match="client"):
        ssdlab.sweep("fragmentation", **QUESTION, dataset="set")


def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path, swept):
    told = []
    with local_cluster() as client:

        def kill(_, share):
            if not told:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            told.append(share)

        again = ssdlab.sweep("fragmentation", **QUESTION, out=tmp_path, client=client, batch=2, progress=kill)
    assert again == swept and len(again.missing) == 0
    # Each batch came back once, and each run is there once.
    assert len(told) == 6 and len(files(tmp_path)) == 12


@contextmanager
def processes(place: Path):
    """A scheduler and two workers as processes of their own: the address, and the scheduler."""
    address = place / "scheduler.json"
    with ExitStack() as stack:

        def start(what, *words):
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", address, *words]
            started = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(started.wait)
            stack.callback(started.kill)
            return started

        scheduler = start("scheduler", "--port", "0", "--no-dashboard")
        deadline = time.monotonic() + 60
        while not address.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        for _ in range(2):
            start("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "10")
        yield str(address), scheduler


def test_a_scheduler_that_is_killed_leaves_what_is_missing_by_name_and_the_sweep_goes_on(tmp_path, swept):
    out = tmp_path / "out"
    settings = {"distributed.comm.timeouts.connect": "2s"}
    import dask

    with dask.config.set(settings), processes(tmp_path) as (address, scheduler):
        with distributed.Client(scheduler_file=address, timeout=2) as client:
            client.wait_for_workers(2)
            lost = ssdlab.sweep(
                "fragmentation",
                **QUESTION,
                out=out,
                client=client,
                batch=1,
                progress=lambda *_: scheduler.kill(),
            )
    made = files(out)
    assert 0 < len(made) < 12 and len(lost.missing) == 12 - len(made)
    assert set(lost.missing["error"]) == {"the scheduler was lost"}
    assert not {f"{key}.json" for key in lost.missing["key"]} & set(made)
    with local_cluster() as client:
        resumed = ssdlab.sweep("fragmentation", **QUESTION, out=out, resume=True, client=client)
    assert resumed == swept
    after = files(out)
    assert len(after) == 12 and all(after[name] == when for name, when in made.items())


def test_tasks_that_fail_are_named_and_made_later(client, tmp_path, swept):
    def fail_with_the_second():
        from ssdlab import _cluster

        real = _cluster._make

        def make(version, sweep, asked, dataset, runs):
            if any(seed == 2 for _, _, seed in runs):
                raise MemoryError("too small a machine")
            return real(version, sweep, asked, dataset, runs)

        _cluster._real, _cluster._make = real, make

    def mend():
        from ssdlab import _cluster

        _cluster._make = _cluster._real

    client.run(fail_with_the_second)
    try:
        lost = ssdlab.sweep("fragmentation", **QUESTION, out=tmp_path, client=client, batch=1)
    finally:
        client.run(mend)
    assert len(lost.missing) == 3 and set(lost.missing["seed"]) == {2}
    assert lost.missing["error"].str.startswith("its task was lost: MemoryError: too small").all()
    resumed = ssdlab.sweep("fragmentation", **QUESTION, out=tmp_path, resume=True, client=client)
    assert resumed == swept


def test_a_worker_without_the_package_says_so():
    def hide():
        import sys

        for name in [it for it in sys.modules if it.partition(".")[0] == "ssdlab"]:
            del sys.modules[name]
        sys.modules["ssdlab"] = None

    with local_cluster() as client:
        client.run(hide)
        lost = ssdlab.sweep("fragmentation", **QUESTION, client=client)
    assert len(lost.missing) == 12
    assert lost.missing["error"].str.startswith("its task was lost: ModuleNotFoundError").all()


def test_a_wrong_point_is_named_and_the_others_are_made(client):
    with pytest.warns(ssdlab.ImpossiblePoints, match="spare=0%"):
        swept = ssdlab.sweep(
            "fragmentation", SMALL, vary={"spare": ["0%", "15%"]}, quick=True, skip_impossible=True, client=client
        )
    assert swept.missing["spare"].tolist() == [0] and swept.runs["state"].tolist() == ["failed", "done"]
    assert "above 0%" in swept.missing["error"].iloc[0]


def test_a_worker_with_another_file_makes_nothing(tmp_path):
    """The same name is another drive there: its figures would be kept under the key of this one."""
    here, there = tmp_path / "here", tmp_path / "there"
    for place, name in ((here, "generic-tlc"), (there, "toshiba-xg5")):
        place.mkdir()
        (place / "own.toml").write_text(ssdlab.Profile(name).toml)
    code = f"""
import os, ssdlab
from ssdlab import _cluster, _ssdlab
from ssdlab._sweep import question
os.chdir({str(here)!r})
asked = question("fragmentation", ["sim:./own.toml,scale=1/64"], {{}}, None, True, 1, 2, None, False)
runs = _ssdlab.Design(asked).keys()
os.chdir({str(there)!r})
for key, figures, why in _cluster._make(ssdlab.__version__, "a sweep", asked, None, runs):
    print(figures, why)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and all(it.startswith("None this worker would make a different run") for it in lines)


def test_a_full_disk_ends_the_sweep_with_what_is_missing(tmp_path):
    """Files may not grow beyond what two runs take, which fails as a full disk does: the write comes back."""
    out = tmp_path / "out"
    first = {**QUESTION, "vary": {"spare": SPARES[:1]}, "seeds": 2}
    ssdlab.sweep("fragmentation", **first, out=out)
    length = min(it.stat().st_size for it in (out / "runs").iterdir())
    code = f"""
import resource, ssdlab
import distributed

with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
    with distributed.Client(cluster) as client:
        resource.setrlimit(resource.RLIMIT_FSIZE, ({length} // 2, resource.RLIM_INFINITY))
        try:
            ssdlab.sweep("fragmentation", **{QUESTION!r}, out={str(out)!r}, resume=True, client=client)
        except ssdlab.IoError as error:
            missing = error.result.missing
            print(len(missing), missing["error"].str.startswith("its result cannot be saved").all())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.stdout == "10 True\n", done.stderr
    assert Counter(it.suffix for it in (out / "runs").iterdir()) == {".json": 2}
