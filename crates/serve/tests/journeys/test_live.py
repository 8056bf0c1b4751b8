"""What changes while one looks: experiments under way, attached drives, this machine."""

import json
import os
import shutil

import pytest
from playwright.sync_api import expect

from place import CAPTURED, SMALL, end, until
from visitor import PICTURE

# A run that takes minutes, unless it is stopped.
LONG = ("run", "steady", "sim:toshiba-xg5", "--quiet")
# How doctor ends where something is wrong with the machine.
PROBLEMS = 12

# How many points each curve has.
POINTS = "[...document.querySelectorAll('#live path.curve')].map((it) => it.getAttribute('d').split('L').length)"
# Notes how many points the longest curve has, whenever it changes.
NOTE_POINTS = f"""() => {{
  window.points = [];
  const note = () => {{
    const now = Math.max(0, ...{POINTS}); 
    if (now !== window.points.at(-1)) window.points.push(now);
  }};
  new MutationObserver(note).observe(document.getElementById('live'), {{ childList: true }});
  note();
}}"""


def test_a_run_is_started_and_its_curve_grows_to_the_end(place, visit):
    user = visit(place.serve())
    page = user.page
    user.take_token()
    user.go("/experiments")
    user.choose("Experiment", "steady")
    # It takes as long as several looks at a page on a busy machine.
    page.get_by_label("Drive:").fill("sim:toshiba-xg5,scale=1/64")
    page.get_by_label("Quick").uncheck()
    page.get_by_label("Seed").fill("7")
    user.click("Start", "button")
    user.heading("steady on sim:toshiba-xg5,scale=1/64")
    page.evaluate(NOTE_POINTS)
    expect(page.get_by_role("progressbar")).to_be_visible()
    user.sees("It is running.")
    page.locator("#live").get_by_role("link", name="run 7").wait_for(timeout=200_000)
    points = page.evaluate("window.points")
    # It came in several pieces, each longer than the one before, until it was full and was thinned out.
    growing = next((at for at in range(1, len(points)) if points[at] < points[at - 1]), len(points))
    assert growing > 3, points
    user.sees("It has ended: run 7.")
    assert page.get_by_role("progressbar").count() == 0 and page.get_by_role("button", name="Stop").count() == 0
    user.click("run 7")
    user.heading("sim:toshiba-xg5,scale=1/64")
    user.sees("Run 7", "steady")
    assert user.curves().count() >= 1


def test_an_order_that_cannot_be_carried_out_is_explained(place, visit):
    user = visit(place.serve())
    page = user.page
    user.take_token()
    user.go("/experiments")
    for label, wrong, words in (
        ("Drive:", "/dev/sda", "is no simulated drive"),
        ("Drive:", "sim:none-like-it", "is no simulated drive"),
        ("Parameters to change", "nonsense", "is no parameter"),
        ("Seed", "one", "is no seed"),
    ):
        right = page.get_by_label(label).input_value()
        page.get_by_label(label).fill(wrong)
        page.get_by_label("Quick").uncheck()
        user.click("Start", "button")
        user.heading("Not started")
        expect(page.locator(".refused")).to_contain_text(words)
        # The request is there to be corrected.
        expect(page.get_by_label(label)).to_have_value(wrong)
        expect(page.get_by_label("Quick")).not_to_be_checked()
        page.get_by_label(label).fill(right)
    user.is_accessible()
    user.fits()


def test_a_run_is_stopped_and_what_it_measured_is_kept(place, visit):
    user = visit(place.serve())
    page = user.page
    user.take_token()
    user.go("/experiments")
    user.choose("Experiment", "steady")
    page.get_by_label("Quick").uncheck()
    user.click("Start", "button")
    user.curves().first.wait_for(state="attached")
    user.click("Stop, and keep what was measured", "button")
    user.click("run 7")
    user.sees("Interrupted. These are the results until then.")


def test_a_run_of_a_terminal_is_watched(place, visit):
    user = visit(place.serve())
    page = user.page
    user.take_token()
    run = place.terminal(*LONG)
    link = page.get_by_role("link", name="steady on sim:toshiba-xg5")
    until(lambda: user.go("/experiments") == 200 and link.count(), "the run")
    link.click()
    user.curves().first.wait_for(state="attached")
    user.sees("It is running.", "of the drive's time")
    assert page.get_by_role("button", name="Stop").count() == 0, "it is the terminal's to stop"
    user.is_accessible()
    user.fits()
    assert user.is_described() >= 1
    assert end(run) == 130
    user.click("run 7")
    user.sees("Interrupted.")


def test_the_inside_is_watched_while_it_is_recorded(place, visit):
    user = visit(place.serve())
    page = user.page
    user.take_token()
    user.go("/experiments")
    user.choose("Experiment", "steady")
    page.get_by_label("Quick").uncheck()
    page.get_by_label("Record the inside").check()
    user.click("Start", "button")
    page.locator("#live canvas").wait_for()
    user.sees("Inside the drive", "as they were recorded last")
    before = page.evaluate(PICTURE)
    until(lambda: page.evaluate(PICTURE) != before, "another picture of the blocks")
    user.is_accessible()
    user.fits()
    user.click("Stop, and keep what was measured", "button")
    user.click("run 7")
    user.sees("Inside the drive", "moments of the run")


def test_a_run_that_was_killed_is_said_to_be_lost(place, visit):
    user = visit(place.serve())
    run = place.terminal(*LONG)
    until(lambda: user.go(f"/experiments/{run.pid}") == 200, "the run")
    user.sees("It is running.")
    run.kill()
    run.wait()
    user.sees("It ended without a report: its program was killed.")
    user.go("/experiments")
    user.sees("its program was killed")


def test_a_page_says_when_its_server_is_gone(place, visit):
    user = visit(place.serve())
    run = place.terminal(*LONG)
    until(lambda: user.go(f"/experiments/{run.pid}") == 200, "the run")
    user.sees("It is running.")
    user.sees_not("The server does not answer")
    user.server.end()
    user.sees("The server does not answer. This is what it showed last.", "It is running.")
    assert end(run) == 130


def test_an_attached_drive_while_it_is_written(place, visit):
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("the page of an attached drive: /dev/fuse is not here, or not to be used")
    if not shutil.which("fio"):
        pytest.skip("the page of an attached drive: fio is not here")
    place.run("create", SMALL, "disk.ssd")
    (place.directory / "as-file").mkdir()
    attached = place.terminal("attach", "disk.ssd", "--file", "as-file")
    disk = place.directory / "as-file/disk"
    until(disk.exists, "the drive")
    place.start(
        "fio", "--name=writes", f"--filename={disk}", "--rw=randwrite", "--bs=4k", "--size=16m", "--direct=1",
        "--ioengine=psync", "--time_based", "--runtime=600", "--thread", "--output-format=terse",
    )  # fmt: skip
    user = visit(place.serve())
    page = user.page
    user.go("/drives")
    page.locator("main").get_by_role("link").click()
    user.heading("as-file/disk")
    user.sees("generic-tlc", "Write amplification", "Blocks by the share of valid units")
    written = page.locator("tr", has_text="writes").locator("td").first
    before = written.text_content()
    expect(written).not_to_have_text(before)
    # The keyboard stays where it was when the page changes, and a table where it was scrolled to.
    table = page.get_by_label("Table: Requests")
    table.focus()
    moved = table.evaluate("(it) => { it.scrollLeft = 40; it.dataset.old = 'yes'; return it.scrollLeft; }")
    until(lambda: page.evaluate("!document.querySelector('[data-old]')"), "another look at the drive")
    expect(table).to_be_focused()
    assert table.evaluate("(it) => it.scrollLeft") == moved
    # Throughput read and written, requests, write amplification, free blocks.
    expect(user.curves()).to_have_count(5)
    # Its blocks change with each look, and stay in the colours that were chosen.
    user.sees("Inside the drive", "A square is a block")
    before = page.evaluate(PICTURE)
    until(lambda: page.evaluate(PICTURE) != before, "another picture of the blocks")
    page.get_by_label("Colour the blocks by").select_option("state")
    expect(page.locator(".inside")).to_contain_text("open for the host")
    page.locator("canvas").evaluate("(it) => { it.dataset.old = 'yes'; }")
    until(lambda: page.evaluate("!document.querySelector('[data-old]')"), "another look at the drive")
    expect(page.locator(".inside")).to_contain_text("open for the host")
    user.is_described()
    user.is_accessible()
    user.fits()
    assert end(attached) == 0
    user.sees("It is detached.")


def test_the_verdicts_about_this_machine(place, visit):
    verdicts = json.loads(place.run("doctor", "--from", CAPTURED, "--json", code=PROBLEMS))
    user = visit(place.serve("--from", CAPTURED))
    page = user.page
    user.go("/machine")
    for kind, said in (
        ("problem", "TRIM stops at md0"),
        ("notice", "nothing trims free space"),
        ("fine", "flushes are sent"),
    ):
        expect(page.locator(f"li.{kind}", has_text=said).first).to_be_visible()
    trims = [check for target in verdicts["targets"] for check in target["checks"] if check["verdict"] == "problem"]
    assert page.locator("section li.problem").count() >= len(trims) > 0
    # What mends it can be copied, and is scrolled by keyboard where it is long.
    command = page.locator("pre.command").first
    expect(command).to_contain_text("devices_handle_discard_safely")
    command.focus()
    page.keyboard.press("ArrowRight")
    user.fits()


def test_wear_and_temperature_by_schedule(place, visit):
    server = place.serve("--every", "1d", "doctor")
    user = visit(server)
    until(lambda: place.has_table("drive_figures"), "the first look at the drives")
    user.go("/machine")
    user.sees("Fewer than two readings have been recorded", "ssdlab serve --every 1d doctor")
    rows = [
        (time, "A drive", json.dumps({"temperature_celsius": degrees}))
        for time, degrees in ((1_700_000_000, 40), (1_700_086_400, 47))
    ]
    place.change("INSERT INTO drive_figures VALUES (?, ?, ?)", rows)
    user.go("/machine")
    user.sees("Temperature")
    user.sees_not("Fewer than two readings have been recorded")
    assert user.is_described() >= 1
    answer = user.page.request.get(server.address + "/metrics")
    assert "ssdlab_runs_kept 6\n" in answer.text()
