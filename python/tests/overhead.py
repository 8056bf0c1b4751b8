#!/usr/bin/env python3
"""What Python adds: the time of the import, and the processor time of a quick run beside the program's.

Both sides run by turns, each in a process of its own, and the least of several turns counts: whatever else
the machine does only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    built = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release/ssdlab"
    parser.add_argument("--program", type=Path, default=built)
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    imported = min(python(IMPORT) for _ in range(arguments.turns))
    print(f"import ssdlab: {imported * 1e3:.0f} ms")
    if not arguments.program.exists():
        print(f"SKIPPED: processor time beside the program's: there is no {arguments.program}", file=sys.stderr)
        return
    ours, theirs = [], []
    for _ in range(arguments.turns):
        theirs.append(program(arguments.program))
        ours.append(python(RUN))
    ratio = min(ours) / min(theirs)
    print(
        f"steady --quick: {min(ours):.3f} s of a processor from Python, {min(theirs):.3f} s from the program "
        f"({(ratio - 1) * 100:+.1f} %)"
    )


if __name__ == "__main__":
    main()
