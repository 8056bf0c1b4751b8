"""What tests share that is no fixture."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

# Small and quick; every test that needs a drive takes this one unless it is about another.
SMALL = "sim:toshiba-xg5,scale=1/64"


def skip(why: str) -> None:
    """Skips a test, and says so where .ci/run looks."""
    print(f"SKIPPED: {why}", file=sys.stderr)
    pytest.skip(why, allow_module_level=True)


def needs(module: str, what: str) -> Any:
    """Imports a module that a test needs; where it is not installed, skips the test and says so."""
    try:
        return importlib.import_module(module)
    except ImportError:
        skip(f"{what}: {module} is not installed")
