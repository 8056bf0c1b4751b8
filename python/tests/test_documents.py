"""What documents and docstrings show is typed as it stands."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["python/README.md", "docs/how-to/use-from-python.md", "docs/how-to/sweep-on-a-cluster.md"]


def blocks(name: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_documents_show_runs(name, tmp_path):
    code = "\n".join(blocks(name))
    assert "import ssdlab" in code
    # What starts processes is guarded, as dask asks for.
    body = "".join(f"    {line}\n" if line else "\n" for line in code.split("\n"))
    script = tmp_path / "script.py"
    script.write_text(f"def main():\n{body}\n\nif __name__ == '__main__':\n    main()\n")
    environment = {**os.environ, "SSDLAB_STORE": str(tmp_path / "runs.sqlite")}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["", "._drive", "._profile", "._sweep", ".theory"])
def test_what_docstrings_show_is_so(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"ssdlab{name}")
    result = doctest.testmod(module)
    assert result.attempted > 0 and result.failed == 0


def test_everything_public_says_what_it_does():
    import ssdlab

    bare = []
    for name in ssdlab.__all__:
        thing = getattr(ssdlab, name)
        if name == "__version__":
            continue
        bare += [] if thing.__doc__ else [name]
        if isinstance(thing, type) and thing.__module__.startswith("ssdlab"):
            for attribute, value in vars(thing).items():
                is_public = not attribute.startswith("_") and (callable(value) or isinstance(value, property))
                bare += [f"{name}.{attribute}"] if is_public and not value.__doc__ else []
    assert bare == []
