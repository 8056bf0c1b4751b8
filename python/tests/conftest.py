"""What tests share: the program, where it was built, and a place of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support import skip

ROOT = Path(__file__).parents[2]

@pytest.fixture(scope="session")
def program() -> Path:
    """The program `ssdlab`: $SSDLAB_PROGRAM, or what cargo has built, or that in the path."""
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    candidates = [os.environ.get("SSDLAB_PROGRAM"), built / "release/ssdlab", shutil.which("ssdlab")]
    for candidate in candidates:
        if candidate and Path(candidate).exists():
            return Path(candidate)
    skip("tests beside the program: it is not built (cargo build --release)")
    raise AssertionError


@pytest.fixture
def cli(program, tmp_path, monkeypatch):
    """Runs the program in a place of its own; returns what it printed."""
    monkeypatch.setenv("SSDLAB_STORE", str(tmp_path / "runs.sqlite"))

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
