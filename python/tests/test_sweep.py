"""Sweeps."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import ssdlab
from support import SMALL, needs

SPARES = ["7%", "15%", "28%"]


@pytest.fixture(scope="module")
def swept():
    return ssdlab.sweep("steady", SMALL, vary={"spare": SPARES}, quick=True, seeds=2)


def test_the_same_question_gives_the_bits_of_the_program(cli, swept):
    words = ["sweep", "steady", SMALL, "--quick", "--vary", "spare=7%,15%,28%", "--seeds", "2", "--json"]
    assert swept.to_json() == cli(*words)


def test_numbers_ask_the_same_question(swept):
    again = ssdlab.sweep("steady", SMALL, vary={"spare": [0.07, 0.15, 0.28]}, quick=True, seeds=2)
    assert again == swept


def test_means_come_with_intervals(swept):
    means = swept.means("write_amplification")
    assert means["spare"].tolist() == [0.07, 0.15, 0.28]
    assert means["mean"].is_monotonic_decreasing
    assert (means["low"] <= means["mean"]).all() and (means["mean"] <= means["high"]).all()
    assert means["runs"].tolist() == [2, 2, 2]
    assert means.attrs["measure"].endswith("write_amplification")
    with pytest.raises(ssdlab.UsageError, match="no run measured"):
        swept.means("happiness")


def test_every_run_is_a_row(swept):
    runs = swept.runs
    assert len(runs) == 6 and set(runs["state"]) == {"done"}
    assert runs["seed"].tolist() == [1, 2] * 3
    assert runs["key"].str.len().eq(64).all()
    assert swept.values.shape == (6, len(swept.measures))
    name = swept.charted[0]
    mean = runs.groupby("spare")[name].mean()
    assert np.allclose(mean, swept.means(name).set_index("spare")["mean"])
    # A row of the sweep is a run that can be made by itself.
    row = runs.iloc[3]
    report = ssdlab.run("steady", row["drive"], quick=True, seed=int(row["seed"]))
    name = next(it for it in swept.measures if it.endswith("].write_amplification"))
    rule = name.partition("[")[2].rpartition("]")[0]
    table = report.tables["steady"]
    assert row[name] == table.loc[table.iloc[:, 0] == rule, "write_amplification"].iloc[0]


def test_a_sweep_is_shown_kept_and_loaded(swept, tmp_path):
    swept.save(tmp_path)
    assert {it.name for it in tmp_path.iterdir()} == {"sweep.json", "runs.csv", "means.csv", "sweep.html"}
    assert ssdlab.load(tmp_path) == swept == pickle.loads(pickle.dumps(swept))
    assert "spare" in swept._repr_html_()
    report = swept.report()
    assert report.experiment == "sweep steady"
    number = report.keep(tmp_path / "runs.sqlite")
    assert ssdlab.load(number, store=tmp_path / "runs.sqlite") == report


def test_a_sweep_is_written_as_parquet(swept, tmp_path):
    parquet = needs("pyarrow.parquet", "sweeps as Parquet")
    swept.to_parquet(tmp_path / "runs.parquet")
    table = parquet.read_table(tmp_path / "runs.parquet")
    pd.testing.assert_frame_equal(table.to_pandas(), swept.runs)
    assert table.schema.field("steady[drift bound].iops").metadata[b"unit"] == b"IOPS"
    # Two sweeps are one data set, also where a key is a word at one point and a number at another.
    mixed = ssdlab.sweep("fragmentation", SMALL, vary={"rest": ["0", "1s"]}, quick=True)
    mixed.to_parquet(tmp_path / "mixed.parquet")
    assert parquet.read_table(tmp_path / "mixed.parquet").num_rows == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"vary": {}}, "nothing is varied"),
        ({"vary": {"spare": []}}, "has no values"),
        ({"vary": {"spare": [""]}}, "has no values"),
        ({"vary": {"spare": "7%"}}, "as a list"),
        ({"vary": {"spair": ["7%", "15%"]}}, "no key .spair. to vary"),
        ({"vary": {"seed": [1, 2]}}, "seeds=N"),
        ({"vary": {"spare": ["7%", "7%"]}}, "twice"),
        ({"vary": {"depth": [1, 2]}, "settings": {"depth": 4}}, "both set and varied"),
        ({"vary": {"spare": ["0%", "-1%"]}}, "none of the points can be run"),
        ({"vary": {"spare": ["0%", "15%"]}}, "1 of 2 points cannot be run; spare=0%"),
        ({"vary": {"spare": SPARES}, "points": 0}, "nothing to run"),
        ({"vary": {"spare": SPARES}, "seeds": 0}, "at least one seed"),
        ({"vary": {"spare": SPARES}, "rest": "soon"}, "rest"),
    ],
)
def test_what_cannot_be_is_said_before_anything_runs(arguments, words):
    def progress(*_):
        raise AssertionError("something ran")

    with pytest.raises(ssdlab.UsageError, match=words):
        ssdlab.sweep("steady", SMALL, quick=True, progress=progress, **arguments)


def test_points_that_cannot_be_are_left_out_when_told():
    with pytest.warns(ssdlab.ImpossiblePoints, match="spare=0%"):
        swept = ssdlab.sweep(
            "fragmentation", SMALL, vary={"spare": ["0%", "15%"]}, quick=True, skip_impossible=True
        )
    assert swept.missing["state"].tolist() == ["failed"]
    assert "above 0%" in swept.missing["error"].iloc[0]


def test_a_sweep_that_was_ended_goes_on(tmp_path):
    code = f"""
import os, signal, ssdlab

def end(_, share):
    if share > 0.3:
        os.kill(os.getpid(), signal.SIGINT)

try:
    ssdlab.sweep("steady", {SMALL!r}, vary={{"spare": {SPARES!r}}}, quick=True, seeds=4, jobs=1,
                 out={str(tmp_path)!r}, progress=end)
except ssdlab.Interrupted as error:
    print(error.result.interrupted, len(error.result.missing) > 0, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("True True interrupted; repeat the call with resume=True"), done.stderr
    made = len(list((tmp_path / "runs").iterdir()))
    assert 0 < made < 12
    question = {"vary": {"spare": SPARES}, "quick": True, "seeds": 4}
    with pytest.raises(ssdlab.UsageError, match="resume=True"):
        ssdlab.sweep("steady", SMALL, out=tmp_path, **question)
    resumed = ssdlab.sweep("steady", SMALL, out=tmp_path, resume=True, **question)
    assert resumed == ssdlab.sweep("steady", SMALL, **question)
    assert json.loads((tmp_path / "sweep.json").read_text()) == json.loads(resumed.to_json())
