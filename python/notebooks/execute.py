#!/usr/bin/env python3
"""Executes the notebooks beside this file, all cells in order; with a directory, writes them there with their outputs.

A cell that raises, or a notebook that takes longer than its limit, fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, help="where to write what was executed")
    parser.add_argument("--limit", type=int, default=120, metavar="SECONDS", help="for each cell [default: 120]")
    arguments = parser.parse_args()
    failed = 0
    for path in sorted(Path(__file__).parent.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            client = NotebookClient(
                notebook, timeout=arguments.limit, kernel_name="python3", resources={"metadata": {"path": place}}
            )
            try:
                client.execute()
                outcome = "executed"
            except (CellExecutionError, CellTimeoutError) as error:
                failed, outcome = failed + 1, f"FAILED: {error}"
        print(f"{path.name}: {outcome} in {time.monotonic() - began:.0f} s", flush=True)
        if arguments.directory:
            arguments.directory.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, arguments.directory / path.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
