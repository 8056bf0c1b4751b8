"""Runs and reports."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

import ssdlab
from support import SMALL, needs, skip

PASSING = ("started", "cost", "host")


def lasting(report: str) -> dict:
    """A report's JSON without what differs from one run to the next."""
    document = json.loads(report)
    return {name: value for name, value in document.items() if name not in PASSING}


@pytest.fixture(scope="module")
def report():
    return ssdlab.run("fragmentation", "sim:toshiba-xg5", quick=True)


@pytest.mark.parametrize(
    ("experiment", "target", "settings"),
    [
        ("fragmentation", "sim:toshiba-xg5", {}),
        ("steady", "sim:samsung-pm983", {}),
        ("steady", "raid1(sim:,scale=1/64;sim:,scale=1/64),sync=none", {"depth": "4"}),
        ("latency", "sim:,scale=1/64", {"pattern": "zipf:0.99"}),
    ],
)
def test_the_same_seed_gives_the_bits_of_the_program(cli, experiment, target, settings):
    set_ = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    printed = cli("run", experiment, target, "--quick", "--seed", "7", "--json", *set_)
    report = ssdlab.run(experiment, target, quick=True, seed=7, settings=settings)
    assert lasting(report.to_json()) == lasting(printed)
    # Names and order of fields, digits and spaces are the program's, too.
    assert ssdlab.Report.from_json(printed).to_json() == printed


def test_numbers_are_bytes_and_seconds(report):
    in_words = ssdlab.run("fragmentation", SMALL, quick=True, settings={"file_size": "64M", "rest": "1s"})
    in_numbers = ssdlab.run("fragmentation", SMALL, quick=True, settings={"file_size": 64 << 20, "rest": 1})
    same = ("tables", "series", "findings", "counters")
    assert all(lasting(in_words.to_json())[it] == lasting(in_numbers.to_json())[it] for it in same)


def test_a_report_says_what_was_found(report):
    assert report.experiment == "fragmentation"
    assert report.target["name"] == "sim:toshiba-xg5"
    assert report.findings[0].code and report.findings[0].text
    assert report.parameters["reads"]
    assert report.counters["host_writes"] > 0
    assert "fragmentation on sim:toshiba-xg5" in str(report)
    assert report.findings[0].text[:20] in report._repr_html_()
    assert report.to_html().startswith("<!DOCTYPE html>")


def test_tables_are_data_frames_with_units(report):
    document = json.loads(report.to_json())
    for table in document["tables"]:
        frame = report.tables[table["name"]]
        assert list(frame.columns) == [it["name"] for it in table["columns"]]
        assert frame.attrs["units"] == {it["name"]: it["unit"] for it in table["columns"]}
        assert len(frame) == len(table["rows"])
        for row, expected in zip(frame.itertuples(index=False), table["rows"]):
            for value, cell in zip(row, expected):
                assert pd.isna(value) if cell is None else value == cell
    with pytest.raises(KeyError, match="there are: "):
        report.tables["nothing"]


def test_series_and_histograms_lie_where_the_library_put_them(report):
    document = json.loads(report.to_json())
    assert len(report.histograms) > 0
    for histogram in document["histograms"]:
        found = report.histograms[histogram["name"]]
        assert found.edges_us.tolist() == histogram["bucket_us"]
        assert found.counts.tolist() == histogram["bucket_count"]
        assert found.counts.sum() == found.count
        assert not found.edges_us.flags.owndata and not found.edges_us.flags.writeable
        assert np.shares_memory(found.edges_us, found.edges_us)
    steady = ssdlab.run("steady", SMALL, quick=True)
    for series in json.loads(steady.to_json())["series"]:
        found = steady.series[series["name"]]
        assert found.x.tolist() == series["x"] and found.y.tolist() == series["y"]
        assert np.shares_memory(found.y, steady.series[series["name"]].y)
        assert found.to_pandas().tolist() == series["y"]
    # The memory outlives the report.
    y = next(iter(steady.series.values())).y
    total = y.sum()
    del steady
    assert y.sum() == total


def test_tables_go_to_arrow_without_a_copy(report):
    pa = needs("pyarrow", "tables as Arrow")
    table = report.tables.raw(next(iter(report.tables)))
    arrow = table.to_arrow()
    assert arrow.num_rows == len(table)
    assert arrow.to_pylist() == pa.table(table).to_pylist()
    floats = [it for it in table.units if table.numpy(it).dtype.kind == "f" and not table.missing(it).any()]
    assert floats
    once = report.tables.raw(table.name)
    assert once.to_arrow().schema.field(floats[0]).metadata == {b"unit": table.units[floats[0]].encode()}
    numbers = once.numpy(floats[0])
    address = once.to_arrow().column(floats[0]).chunk(0).buffers()[1].address
    assert address == numbers.__array_interface__["data"][0]


def test_reports_come_back_from_files_pickles_and_the_store(report, tmp_path, cli):
    path = tmp_path / "report.json"
    report.save(path)
    assert ssdlab.load(path) == report
    assert pickle.loads(pickle.dumps(report)) == report
    store = tmp_path / "runs.sqlite"
    number = report.keep(store)
    assert ssdlab.load(number, store=store) == report == ssdlab.load("last", store=store)
    assert ssdlab.kept(store)["experiment"].tolist() == ["fragmentation"]
    # The program and Python keep runs in one place.
    assert json.loads(cli("show", "last", "--json")) == json.loads(report.to_json())


def test_results_of_fio_are_loaded(tmp_path, cli):
    text = json.dumps(
        {
            "fio version": "fio-3.33",
            "timestamp": 1700000000,
            "jobs": [
                {
                    "jobname": "reads",
                    "groupid": 0,
                    "error": 0,
                    "job options": {"filename": "/dev/sdx", "direct": "1", "rw": "randread", "bs": "4k"},
                    "read": {
                        "io_bytes": 40960,
                        "total_ios": 10,
                        "runtime": 100,
                        "lat_ns": {"mean": 90000.0, "N": 10},
                        "clat_ns": {"mean": 80000.0, "N": 10, "bins": {"79000": 5, "81000": 5}},
                    },
                }
            ],
        }
    )
    path = tmp_path / "fio.json"
    path.write_text(text)
    report = ssdlab.load(path)
    assert report.tables["jobs"].loc[0, "requests"] == 10
    assert report.to_json() == ssdlab.Report.from_json(cli("import", "fio.json", "--json")).to_json().replace(
        '"fio.json"', json.dumps(str(path))
    ) or lasting(report.to_json())["tables"] == lasting(cli("import", "fio.json", "--json"))["tables"]


def test_runs_are_put_side_by_side(report):
    other = ssdlab.run("fragmentation", "sim:samsung-pm983", quick=True)
    comparison = ssdlab.compare(report, other, labels=["one", "other"])
    assert [run["label"] for run in comparison.runs] == ["one", "other"]
    assert len(comparison.tables) > 0 and "one" in comparison._repr_html_()
    with pytest.raises(ssdlab.UsageError, match="two reports or more"):
        ssdlab.compare(report)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ssdlab.run("steddy"), ssdlab.UsageError, "did you mean steady"),
        (lambda: ssdlab.run("steady", "sim:toshiba-xg6"), ssdlab.UsageError, "toshiba-xg5"),
        (lambda: ssdlab.run("steady", "sim:,spair=7%"), ssdlab.UsageError, "not a parameter of a drive"),
        (lambda: ssdlab.run("steady", settings={"deph": 4}), ssdlab.UsageError, "did you mean depth"),
        (lambda: ssdlab.run("steady", settings={"spare": "7%"}), ssdlab.UsageError, "give it in the target"),
        (lambda: ssdlab.run("steady", settings={"depth": -1}), ssdlab.UsageError, "depth"),
        (lambda: ssdlab.run("steady", settings={"limit": float("nan")}), ssdlab.UsageError, "limit"),
        (lambda: ssdlab.run("steady", file="x.fio"), ssdlab.UsageError, "takes no file"),
        (lambda: ssdlab.run("job"), ssdlab.UsageError, "file"),
        (lambda: ssdlab.run("fragmentation", "./nowhere/x"), ssdlab.Error, "nowhere"),
        (lambda: ssdlab.Report.from_json("{"), ssdlab.UsageError, "line 1"),
        (lambda: ssdlab.load("./nowhere.json"), ssdlab.UsageError, "cannot read"),
        (lambda: ssdlab.load("last", store="./none"), ssdlab.UsageError, "none"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(call, error, words):
    with pytest.raises(error, match=words) as raised:
        call()
    assert raised.value.result is None
    assert isinstance(raised.value, ssdlab.Error)


def test_a_block_device_is_refused(tmp_path):
    from pathlib import Path

    devices = [it for it in Path("/dev").glob("*") if it.is_block_device()]
    if not devices:
        skip("a refusal of block devices: there is none here")
    with pytest.raises(ssdlab.RefusedError, match="--destroy-data"):
        ssdlab.run("fragmentation", devices[0], quick=True)
    with pytest.raises(ssdlab.RefusedError, match="only the command line measures"):
        ssdlab.sweep("fragmentation", str(devices[0]), seeds=2)


def test_a_run_on_a_directory_leaves_nothing_there(tmp_path):
    settings = {"file_size": "16M", "rest": 0}
    report = ssdlab.run("fragmentation", tmp_path, quick=True, settings=settings, allow_buffered=True)
    assert report.target["kind"] == "directory"
    assert list(tmp_path.iterdir()) == []


def test_errors_are_what_python_knows_too():
    assert issubclass(ssdlab.UsageError, ValueError)
    assert issubclass(ssdlab.Interrupted, KeyboardInterrupt)
    assert not issubclass(ssdlab.Interrupted, Exception)


def test_progress_is_told_and_may_end_the_run():
    told = []
    ssdlab.run("fragmentation", "sim:toshiba-xg5", quick=True, progress=lambda *it: told.append(it))
    shares = [share for _, share in told]
    assert shares == sorted(shares) and all(0 <= share <= 1 for share in shares)
    assert told and all(step for step, _ in told)

    class Enough(Exception):
        pass

    def end(step, share):
        raise Enough

    with pytest.raises(Enough):
        ssdlab.run("steady", "sim:toshiba-xg5", progress=end)


def test_other_threads_go_on_meanwhile():
    counted = 0
    ended = threading.Event()

    def count():
        nonlocal counted
        while not ended.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    ssdlab.run("fragmentation", "sim:toshiba-xg5", quick=True)
    ended.set()
    thread.join()
    assert counted > 10


def test_ctrl_c_ends_a_run_and_keeps_what_was_measured():
    code = """
import os, signal, threading, ssdlab
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    ssdlab.run("random-write", "sim:toshiba-xg5")
except KeyboardInterrupt as error:
    assert isinstance(error, ssdlab.Interrupted)
    assert error.result.interrupted
    print("kept", error.result.experiment)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "kept random-write\n", done.stderr


def test_the_import_brings_nothing_heavy_along():
    code = "import sys, ssdlab; print([it for it in ('numpy', 'pandas', 'pyarrow', 'dask') if it in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
