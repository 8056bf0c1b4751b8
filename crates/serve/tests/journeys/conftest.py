"""Journeys of a user through `ssdlab serve`, each at a desktop's width and at a telephone's.

    .ci/pages                                     in an environment of its own
    pytest crates/serve/tests/journeys --program target/debug/ssdlab [--pictures DIRECTORY]

A journey is a sentence, and ends in what the user sees. Besides, each fails when a page has an error, when a browser
asks any other server for anything, and when a program does not end as Ctrl-C ends it. Here is what they have in common:
the program, a browser, a place of their own.
"""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from place import REPOSITORY, Place, prepared
from visitor import Visitor

# What a page comes to in its own time takes longer on a machine that has much to do.
expect.set_options(timeout=30_000)

# No service of the browser's maker is asked for anything.
ARGUMENTS = [
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_addoption(parser):
    parser.addoption("--program", default=REPOSITORY / "target/debug/ssdlab", type=Path, help="the ssdlab to try")
    parser.addoption("--chromium", default="/usr/bin/chromium", help="the browser")
    parser.addoption("--pictures", type=Path, help="directory for a picture of each journey's last page")
    parser.addoption("--playground", type=Path, help="the page of scripts/playground, where it was made")


def pytest_terminal_summary(terminalreporter):
    """What was skipped, as .ci/run looks for it."""
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIPPED: {report.longrepr[2].removeprefix('Skipped: ')}")


@pytest.fixture(scope="session")
def program(request):
    return request.config.getoption("--program").resolve(strict=True)


@pytest.fixture(scope="session")
def runs(program, tmp_path_factory):
    return prepared(program, tmp_path_factory.mktemp("prepared") / "place")


@pytest.fixture(scope="session")
def browser(request, tmp_path_factory):
    home = str(tmp_path_factory.mktemp("home"))
    own = {"HOME": home, "XDG_CACHE_HOME": home, "XDG_CONFIG_HOME": home}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=request.config.getoption("--chromium"), args=ARGUMENTS, env={**os.environ, **own}
        )
        yield browser
        browser.close()


@pytest.fixture(params=[1280, 420])
def width(request):
    return request.param


@pytest.fixture
def place(program, runs, tmp_path):
    """A place with a copy of the prepared runs."""
    with Place(program, tmp_path, runs) as place:
        yield place


@pytest.fixture
def empty_place(program, tmp_path):
    """A place without runs."""
    with Place(program, tmp_path) as place:
        yield place


@pytest.fixture
def visit(request, browser, width):
    """Opens a browser at a server; what went wrong in it fails the journey at its end."""
    visitors = []

    def open_one(server=None, **options):
        visitors.append(Visitor(browser, width, server, **options))
        return visitors[-1]

    yield open_one
    pictures = request.config.getoption("--pictures")
    for number, visitor in enumerate(visitors):
        if pictures and not visitor.page.is_closed():
            name = request.node.name.replace("[", "-").rstrip("]") + (f"-{number + 1}" if number else "")
            visitor.page.screenshot(path=pictures / f"{name}.png", full_page=True)
    for visitor in visitors:
        visitor.close()
