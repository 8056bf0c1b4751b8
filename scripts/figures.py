#!/usr/bin/env python3
"""Draws the figures of docs/explanation from runs of the simulated drives.

    pip install matplotlib
    scripts/figures.py [--ssdlab target/release/ssdlab]

Each figure is made of reports as any user gets them (--json), with seed 1; it takes a minute.
"""

import argparse
import json
import os
import subprocess

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plot

INTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "img")
COLOURS = ["#17677a", "#c2611b", "#6b4fa0", "#2f7d4f"]


def report(ssdlab, *arguments):
    command = [ssdlab, "--quiet", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def columns(found, table):
    table = next(it for it in found["tables"] if it["name"] == table)
    names = [column["name"] for column in table["columns"]]
    return {name: [row[at] for row in table["rows"]] for at, name in enumerate(names)}


def series(found, name):
    found = next(it for it in found["series"] if it["name"] == name)
    return found["x"], found["y"]


def begin(x, y):
    figure, axes = plot.subplots(figsize=(6.4, 3.6))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def save(figure, name):
    figure.tight_layout()
    path = os.path.join(INTO, name + ".svg")
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plot.close(figure)
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip() for line in file]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(path)


def over_provisioning(ssdlab):
    figure, axes = begin("over-provisioning, % of physical capacity", "write amplification")
    for colour, policy in zip(COLOURS, ("greedy", "d-choices,collection.choices=2", "random")):
        found = columns(report(ssdlab, "advise", f"sim:generic-tlc,scale=1/32,collection.policy={policy}"), "spare")
        axes.plot(found["spare"], found["theory"], color=colour, linewidth=1)
        axes.plot(found["spare"], found["write_amplification"], "o", color=colour, label=policy.replace(",collection.choices=2", ", d = 2"))
    axes.set_ylim(bottom=1)
    axes.legend(frameon=False, title="simulated, and theory as a line")
    save(figure, "over-provisioning")


def steady_state(ssdlab):
    figure, axes = begin("written at random, in capacities", "MB/s")
    for colour, spare in zip(COLOURS, (7, 28)):
        found = report(ssdlab, "run", "steady", f"sim:generic-tlc,spare={spare}%", "--quick", "--no-store")
        minutes, rates = series(found, "throughput")
        capacity = found["target"]["capacity_bytes"] / 1e6
        written, at, before = [], 0.0, 0.0
        for minute, rate in zip(minutes, rates):
            at += (minute - before) * 60 * rate
            before = minute
            written.append(at / capacity)
        axes.plot(written, rates, color=colour, label=f"{spare} % over-provisioning")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    save(figure, "steady-state")


def fragmentation(ssdlab):
    figure, axes = begin("overwritten at random, GiB (of a file of 4 GiB)", "time of a sequential read, s")
    for colour, drive in zip(COLOURS, ("toshiba-xg5", "samsung-pm983", "micron-5200")):
        found = columns(report(ssdlab, "run", "fragmentation", f"sim:{drive}", "--no-store"), "reads")
        written = [amount / 2**30 for amount in found["written_bytes"][:5]]
        axes.plot(written, found["best_seconds"][:5], "o-", color=colour, label=drive)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    save(figure, "scattered-file")


def flushes(ssdlab):
    found = columns(report(ssdlab, "run", "barrier", "sim:goodram-c50-120", "--quick", "--no-store"), "sqlite")
    rows = [(mode, sync, rate) for mode, sync, barrier, rate
            in zip(found["journal_mode"], found["synchronous"], found["barrier"], found["inserts_per_second"])
            if barrier]
    figure, axes = begin("SQLite inserts a second", "")
    names = [f"{mode}, {sync}" for mode, sync, _ in rows][::-1]
    axes.barh(names, [rate for *_, rate in rows][::-1], color=COLOURS[0])
    save(figure, "flushes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ssdlab", default="target/release/ssdlab")
    options = parser.parse_args()
    plot.rcParams["svg.hashsalt"] = "ssdlab"
    for draw in (over_provisioning, steady_state, fragmentation, flushes):
        draw(options.ssdlab)


if __name__ == "__main__":
    main()
