"""Profiles, drives and phases."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest

import ssdlab
from ssdlab import theory
from support import SMALL

MIB = 1 << 20


@pytest.fixture(scope="module")
def steady():
    return ssdlab.Drive(SMALL).precondition("steady")


def test_a_profile_has_its_parameters_with_their_sources():
    profile = ssdlab.Profile("toshiba-xg5")
    assert "XG5" in profile.summary
    row = profile.parameters.loc["flash.page_read"]
    assert row["basis"] in ("published", "fitted", "assumed") and row["source"] and row["meaning"]
    assert profile.toml.count("[flash]") == 1
    assert "toshiba-xg5" in ssdlab.profiles() and len(ssdlab.profiles()) >= 16
    assert "flash.page_read" in profile._repr_html_()


def test_changes_are_text_or_numbers():
    texts = ssdlab.Profile("toshiba-xg5", {"spare": "15%", "flash.page_read": "60us", "scale": "1/16"})
    numbers = {"spare": 0.15, "flash.page_read": 60e-6, "scale": Fraction(1, 16)}
    assert ssdlab.Profile("toshiba-xg5", numbers).target.replace("60000ns", "60us") == texts.target
    assert texts.spare == pytest.approx(0.15, abs=0.001)
    assert texts.capacity < ssdlab.Profile("toshiba-xg5").capacity / 15
    assert texts.changed(trim=False).target == texts.target + ",trim=off"
    assert pickle.loads(pickle.dumps(texts)) == texts
    assert ssdlab.Profile() == ssdlab.Profile("generic-tlc")


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("toshiba-xg6", {}, "toshiba-xg5"),
        ("toshiba-xg5", {"spair": "7%"}, "not a parameter of a drive"),
        ("toshiba-xg5", {"spare": "0%"}, "above 0%"),
        ("toshiba-xg5", {"depth": 4}, "parameter of experiments"),
        ("toshiba-xg5", {"flash.page_read": "soon"}, "duration"),
        ("toshiba-xg5", {"flash.page_read": float("inf")}, "seconds"),
    ],
)
def test_wrong_profiles_and_keys_are_named(name, changes, words):
    with pytest.raises(ssdlab.UsageError, match=words):
        ssdlab.Profile(name, changes)


def test_a_phase_measures_what_it_moved(steady):
    drive = steady.copy()
    before = drive.seconds
    result = drive.write("4K", depth=32, amount="128M", seed=3)
    assert result.bytes_written == 128 * MIB and result.bytes_read == 0
    assert result.requests == 32768 == result.writes.count
    assert math.isclose(result.iops * result.seconds, result.requests)
    assert math.isclose(result.mb_per_second, result.bytes_written / 1e6 / result.seconds)
    assert drive.seconds == pytest.approx(before + result.seconds)
    assert result.write_amplification > 1.5
    assert result.counters["host_written_bytes"] == 128 * MIB
    assert result.writes.mean_us <= result.writes.percentile_us(99) <= result.writes.percentile_us(99.9)
    assert math.isnan(result.reads.mean_us) and math.isnan(result.reads.percentile_us(50))
    # Too few requests for such a figure.
    assert math.isnan(result.writes.percentile_us(99.9999))
    edges, counts = result.writes.histogram()
    assert counts.sum() == result.requests and (np.diff(edges) > 0).all()
    assert "write amplification" in result._repr_html_()


def test_the_same_phase_on_the_same_drive_is_the_same(steady):
    one, other = steady.copy(), steady.copy()
    results = [it.mix(70, "4K", depth=8, amount="32M", pattern="zipf:0.99") for it in (one, other)]
    first, second = results
    assert (first.seconds, first.requests) == (second.seconds, second.requests)
    assert [it.tolist() for it in first.reads.histogram()] == [it.tolist() for it in second.reads.histogram()]
    assert one.counters == other.counters
    assert 0.65 < first.reads.count / first.requests < 0.75


def test_throughput_comes_in_intervals(steady):
    result = steady.copy().write("64K", depth=8, time=2.0, interval="100ms")
    series = result.throughput
    # What was in flight at the end is answered in one more.
    assert len(series) in (20, 21) and result.seconds == pytest.approx(2.0, rel=0.05)
    assert series["mb_per_s"][:20].mean() == pytest.approx(result.mb_per_second, rel=0.05)
    assert len(steady.copy().write("64K", time=0.5, interval=0).throughput) == 0


def test_an_open_loop_arrives_at_its_rate(steady):
    result = steady.copy().read("4K", rate=5000, arrivals="open", depth=64, time=1)
    assert result.iops == pytest.approx(5000, rel=0.1)
    with pytest.raises(ssdlab.UsageError, match="rate at which requests arrive"):
        steady.copy().read(arrivals="open")


def test_a_drive_is_saved_and_goes_on(tmp_path, cli):
    drive = ssdlab.Drive(SMALL).precondition("random", written="1.5x")
    assert "random places" in drive.history
    target = drive.save(tmp_path / "aged.ssd")
    again = ssdlab.Drive(target)
    one, other = (it.write("4K", depth=4, amount="16M") for it in (drive, again))
    assert one.seconds == other.seconds and drive.counters == again.counters
    with pytest.raises(ssdlab.RefusedError, match="replace=True"):
        drive.save(tmp_path / "aged.ssd")
    drive.save(tmp_path / "aged.ssd", replace=True)
    # The program takes it, and finds the same in it.
    printed = json.loads(cli("run", "fragmentation", "sim:./aged.ssd", "--quick", "--json"))
    report = ssdlab.run("fragmentation", ssdlab.Drive(target), quick=True)
    assert json.loads(report.to_json())["tables"] == printed["tables"]


def test_an_experiment_may_take_a_drive_as_it_is(steady):
    drive = steady.copy()
    report = ssdlab.run("fragmentation", drive, quick=True, purge=False)
    purged = ssdlab.run("fragmentation", steady.copy(), quick=True)
    assert "taken as it is" in str(report.target["facts"])
    assert "taken as it is" not in str(purged.target["facts"])
    assert "an experiment" in drive.history


def test_the_old_name_of_a_purge_is_understood(steady):
    drive = steady.copy()
    with pytest.warns(DeprecationWarning, match="purge"):
        report = ssdlab.run("fragmentation", drive, quick=True, make_new=False)
    assert "taken as it is" in str(report.target["facts"])
    with pytest.warns(DeprecationWarning, match="purge"):
        drive.make_new()
    assert drive.counters["host_writes"] == 0


def test_trim_flush_rest_and_new(steady):
    drive = steady.copy()
    assert drive.flush() >= 0
    assert drive.trim(0, "16M") > 0
    before = drive.seconds
    drive.rest("1h")
    assert drive.seconds == pytest.approx(before + 3600)
    drive.purge()
    assert drive.counters["host_writes"] == 0
    with pytest.raises(ssdlab.UsageError, match="does not age"):
        drive.store("1y")
    with pytest.raises(ssdlab.UnsupportedError, match="trim"):
        ssdlab.Drive("usb(sim:,scale=1/64)").trim()


def test_stacks_are_drives():
    stack = ssdlab.Drive("raid1(sim:,scale=1/64;sim:,scale=1/64),sync=none")
    assert stack.write("64K", amount="8M").requests == 128
    with pytest.raises(ssdlab.UnsupportedError, match="members"):
        stack.save("stack.ssd")
    with pytest.raises(ssdlab.UsageError, match="new drive of one profile"):
        stack.precondition()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda it: it.write("4000"), "block size"),
        (lambda it: it.write("4K", depth=0), "depth 0"),
        (lambda it: it.write("4K", depth=-1), "depth is -1"),
        (lambda it: it.write("4K", pattern="zipfy"), "distribution"),
        (lambda it: it.write("4K", amount="1G", time=1), "contradict"),
        (lambda it: it.write("4K", amount=4097), "whole number of blocks"),
        (lambda it: it.write("4K", amount=1.5), "whole number of bytes"),
        (lambda it: it.write("4K", offset="1T"), "smaller than one block"),
        (lambda it: it.write("4K", length="1T"), "behind the drive's end"),
        (lambda it: it.mix(101, "4K"), "101 percent"),
        (lambda it: it.write("4K", rate=0), "rate 0"),
        (lambda it: it.write("4K", arrivals="often"), "arrivals"),
        (lambda it: it.rest("soon"), "duration"),
        (lambda it: it.trim("1T"), "past the end of the drive"),
        (lambda it: it.purge("gently"), "factory"),
        (lambda it: it.precondition("old"), "steady"),
        (lambda it: it.precondition("random", hot="80%:20%"), "only the state steady"),
        (lambda it: it.precondition("steady", hot="80:20"), "hot"),
    ],
)
def test_what_cannot_be_is_said_and_changes_nothing(call, words):
    drive = ssdlab.Drive(SMALL)
    with pytest.raises(ssdlab.UsageError, match=words):
        call(drive)
    assert drive.counters["host_writes"] == 0 and drive.seconds == 0


def test_a_used_drive_is_not_made_used_again(steady):
    with pytest.raises(ssdlab.UsageError, match="is not a new drive"):
        steady.copy().precondition()


def test_a_real_drive_is_none_to_put_through_phases(tmp_path):
    with pytest.raises(ssdlab.UsageError, match="ssdlab.run"):
        ssdlab.Drive(str(tmp_path))


def test_two_threads_do_not_share_a_drive(steady):
    drive = steady.copy()
    begun, tried = threading.Event(), threading.Event()

    class Enough(Exception):
        pass

    def progress(*_):
        begun.set()
        if tried.is_set():
            raise Enough

    def write():
        with pytest.raises(Enough):
            drive.write("4K", depth=32, amount="1000x", progress=progress)

    thread = threading.Thread(target=write)
    thread.start()
    begun.wait()
    with pytest.raises(ssdlab.UsageError, match="another thread"):
        drive.write("4K", amount="1M")
    tried.set()
    thread.join()
    assert drive.write("4K", amount="1M").requests == 256


def test_ctrl_c_ends_a_phase_and_leaves_the_drive():
    code = """
import os, signal, threading, ssdlab
drive = ssdlab.Drive("sim:toshiba-xg5,scale=1/16").precondition("steady")
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    drive.write("4K", depth=32, amount="1000x")
except ssdlab.Interrupted:
    print(drive.seconds > 0, drive.write("4K", amount="1M").requests)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True 256\n", done.stderr


def test_a_worn_out_drive_takes_no_more():
    worn = {"scale": "1/64", "wear.life": 20, "wear.life_shape": 3, "wear.retire_most": 0.05}
    drive = ssdlab.Drive(ssdlab.Profile("toshiba-xg5", worn))
    with pytest.raises(ssdlab.EndOfLifeError, match="no more writes"):
        drive.write("1M", pattern="sequential", amount="100x")


def test_theory_takes_numbers_and_arrays():
    shares = np.array([[0.07, 0.15], [0.28, 1.0]])
    values = theory.greedy(shares, units_per_block=1024)
    assert values.shape == shares.shape
    assert values[0, 1] == theory.greedy(0.15, 1024)
    assert theory.random(0.25) == pytest.approx(5.0)
    assert theory.d_choices(0.07, 128, 1) == pytest.approx(theory.random(0.07), rel=1e-3)
    hot = theory.hot_cold_two_streams(0.1, 0.8, 0.2)
    assert 1 < hot < theory.hot_cold_one_stream(0.1, 0.8, 0.2)
    assert theory.spare_with_trim(0.1, 0.1) > 0.1
    with pytest.raises(ssdlab.UsageError):
        theory.fifo(0.0)


def test_the_model_meets_theory():
    profile = ssdlab.Profile("toshiba-xg5", {"scale": "1/32", "spare": "20%"})
    drive = ssdlab.Drive(profile).precondition("steady")
    measured = drive.write(profile.unit_size, depth=32, amount="1x").write_amplification
    assert measured == pytest.approx(profile.expected_write_amplification, rel=0.03)
