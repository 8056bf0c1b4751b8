"""A place of a journey's own: a store with runs, a server on it, programs beside it; all of it ends with the place."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[4]
# A machine with all levels of verdicts: drives of many kinds, a RAID.
CAPTURED = REPOSITORY / "crates/host/tests/in_guest/md-raid5.tar.gz"
# A small drive, whose runs take an instant.
SMALL = "sim:,scale=1/64"
# Long for any machine; a first start of a browser or a build in the background takes long as well.
PATIENCE_S = 60


def until(holds, what):
    """Waits until `holds()` is true, and returns what it returned."""
    end = time.monotonic() + PATIENCE_S
    while not (value := holds()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
    return value


class Place(contextlib.ExitStack):
    """A directory with a store of runs, and what runs there."""

    def __init__(self, program: Path, directory: Path, runs: Path | None = None):
        super().__init__()
        self.program = program
        self.directory = directory
        self.store = directory / "runs.sqlite"
        self.records = directory / "run"
        self.records.mkdir(mode=0o700)
        if runs is not None:
            shutil.copy(runs, self.store)

    @property
    def environment(self):
        own = {"SSDLAB_STORE": str(self.store), "SSDLAB_RUN": str(self.records), "NO_COLOR": "1"}
        return {**os.environ, **own}

    def run(self, *arguments, code=0):
        """Runs the program to its end; returns what it printed."""
        done = subprocess.run(
            [self.program, *arguments], env=self.environment, cwd=self.directory, capture_output=True, text=True
        )
        assert done.returncode == code, f"{arguments}: {done.stderr}"
        return done.stdout

    def start(self, *command):
        """Starts a command that goes on; it is ended with the place, if not before. What it says is in `said`."""
        said = (self.directory / f"said-{time.monotonic_ns()}").open("w+")
        child = subprocess.Popen(
            command, env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        child.said = Path(said.name)
        said.close()
        self.callback(end, child)
        return child

    def terminal(self, *arguments):
        """Starts the program as a terminal does."""
        return self.start(self.program, *arguments)

    def serve(self, *arguments):
        """Starts a server at a free port; returns it when it answers."""
        child = self.terminal("serve", "--listen", "127.0.0.1:0", "--store", self.store, *arguments)

        def told():
            text = child.said.read_text()
            assert child.poll() is None, text
            return text if "Ctrl-C" in text else None

        words = until(told, "the server's address").split()
        address = next(word for word in words if word.startswith("http://"))
        tokens = [word.partition("token=")[2] for word in words if "token=" in word]
        return Server(child, address.partition("/token")[0].rstrip("/"), tokens[0] if tokens else None)

    def change(self, statement, rows):
        """Writes rows that would take days to come about into the store."""
        with contextlib.closing(sqlite3.connect(self.store)) as store, store:
            store.executemany(statement, rows)

    def has_table(self, name):
        with contextlib.closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True)) as store:
            return store.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [name]).fetchone()


class Server:
    """A server that answers."""

    def __init__(self, child, address, token):
        self.child = child
        self.address = address
        self.token = token

    def end(self):
        assert end(self.child) == 0, self.child.said.read_text()


def end(child):
    """Ends a process as Ctrl-C does; one that does not obey is killed, which fails. Returns its exit code."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
    try:
        return child.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        raise


def prepared(program, directory):
    """Makes the store that every journey begins with a copy of; returns its path.

    Runs 1 to 3 are of one small drive, the others each of another kind of report.
    """
    directory.mkdir()
    place = Place(program, directory)
    for seed in "1", "2", "3":
        place.run("run", "fragmentation", SMALL, "--quick", "--quiet", "--seed", seed)
    place.run("run", "fragmentation", "sim:toshiba-xg5", "--quick", "--quiet", "--record-inside")
    place.run("run", "latency", SMALL, "--quick", "--quiet")
    place.run("run", "blocksize", SMALL, "--quick", "--quiet")
    return place.store
