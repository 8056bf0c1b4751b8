#!/usr/bin/env python3
"""What Python and Dask add: the time of the import, the processor time of a quick run beside the program's, and what a point
of a sweep costs on a cluster of this machine beyond its run.

Both sides run by turns, each in a process of its own, and the least of several turns counts: whatever else
the machine does only adds. Fails where a limit is exceeded.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

RUN = "import ssdlab; print(ssdlab.run('steady', 'sim:samsung-pm983', quick=True).cost['cpu_seconds'])"
IMPORT = "import time; t = time.perf_counter(); import ssdlab; print(time.perf_counter() - t)"


def python(code: str) -> float:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def program(path: Path) -> float:
    words = [path, "run", "steady", "sim:samsung-pm983", "--quick", "--json", "--no-store", "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["cost"]["cpu_seconds"])


def on_dask(points: int, turns: int) -> float:
    """Seconds that each point of a sweep takes on two workers, beside two threads of one process."""
    import distributed
    import ssdlab

    spares = [f"{7 + place * 0.01:.2f}%" for place in range(points)]
    sweep = functools.partial(
        ssdlab.sweep, "trim-check", "sim:,scale=1/64", vary={"spare": spares}, quick=True
    )
    here, there = [], []
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        sweep(client=client)
        for _ in range(turns):
            began = time.perf_counter()
            ours = sweep(jobs=2)
            here.append(time.perf_counter() - began)
            began = time.perf_counter()
            theirs = sweep(client=client)
            there.append(time.perf_counter() - began)
            assert ours == theirs
    return (min(there) - min(here)) / points


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    built = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release/ssdlab"
    parser.add_argument("--program", type=Path, default=built)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--points", type=int, default=400, help="of the sweep on Dask [default: 400]")
    arguments = parser.parse_args()
    imported = min(python(IMPORT) for _ in range(arguments.turns))
    print(f"import ssdlab: {imported * 1e3:.0f} ms (limit: 150)")
    added = on_dask(arguments.points, 3)
    print(f"a point of a sweep on Dask, two workers: {added * 1e3:.2f} ms beyond its run (limit: 5)")
    is_met = imported < 0.150 and added < 0.005
    if not arguments.program.exists():
        print(f"SKIPPED: processor time beside the program's: there is no {arguments.program}", file=sys.stderr)
        return 0 if is_met else 1
    ours, theirs = [], []
    for _ in range(arguments.turns):
        theirs.append(program(arguments.program))
        ours.append(python(RUN))
    ratio = min(ours) / min(theirs)
    print(
        f"steady --quick: {min(ours):.3f} s of a processor from Python, {min(theirs):.3f} s from the program "
        f"({(ratio - 1) * 100:+.1f} %; limit: +3)"
    )
    return 0 if is_met and ratio < 1.03 else 1


if __name__ == "__main__":
    sys.exit(main())
