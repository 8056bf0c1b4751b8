"""What tests share that is no fixture."""

from __future__ import annotations

import sys

import pytest

# Small and quick; every test that needs a drive takes this one unless it is about another.
SMALL = "sim:toshiba-xg5,scale=1/64"


def skip(why: str) -> None:
    """Skips a test, and says so where .ci/run looks."""
    print(f"SKIPPED: {why}", file=sys.stderr)
    pytest.skip(why)
