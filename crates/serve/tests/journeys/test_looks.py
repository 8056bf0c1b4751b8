"""However one looks: by keyboard, with a screen reader, on a telephone, in the dark, without JavaScript, from disk."""

import pytest
from playwright.sync_api import expect

from place import CAPTURED, SMALL, until
from visitor import PICTURE

# Elements that are bright, or whose words are dark.
LIGHT = """() => {
  const sum = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0);
  const is_clear = (colour) => colour === 'rgba(0, 0, 0, 0)';
  return [document.body, ...document.querySelectorAll('input, select, textarea, button, pre, th')]
    .filter((it) => !it.matches('[type=checkbox], [type=range]'))
    .filter((it) => {
      const { backgroundColor: paper, color: ink } = getComputedStyle(it);
      return !is_clear(paper) && sum(paper) > 200 || sum(ink) < 350;
    })
    .map((it) => it.outerHTML.slice(0, 80));
}"""

TREND = "/trend?experiment=fragmentation&target=sim%3A%2Cscale%3D1%2F64"
# The kinds of pages, with what each has to show.
KINDS = {
    "/": "6 runs",
    "/runs/1": "Sequential reads",
    "/runs/4": "Inside the drive",
    "/runs/5": "Latency histograms",
    "/runs/6": "Throughput",
    "/compare?run=1&run=2&run=3": "Differences",
    TREND: "3 runs since",
    "/experiments": "Start an experiment",
    "/drives": "No drive is attached",
    "/machine": "The machine as a whole",
    "/token": "Changes need the token",
    "/nothing": "There is no such page",
}


def each_kind(user):
    for path, words in KINDS.items():
        user.go(path)
        user.sees(words)
        yield path


def test_every_kind_of_page_is_accessible(place, visit):
    user = visit(place.serve("--from", CAPTURED))
    user.take_token()
    described = 0
    for _ in each_kind(user):
        user.is_accessible()
        described += user.is_described()
    assert described > 50


def test_no_page_is_wider_than_its_window(place, visit):
    place.run("run", "fragmentation", "raid1(sim:,scale=1/64;sim:,scale=1/64),sync=none", "--quick", "--quiet")
    long = "a" * 40
    place.run(
        "run",
        "fragmentation",
        f"{SMALL},flash.page_read=71us,flash.program=701us,flash.erase=7001us",
        "--quick",
        "--quiet",
    )
    user = visit(place.serve("--from", CAPTURED))
    user.take_token()
    user.go("/runs/8")
    user.page.get_by_text("Tags and note").click()
    user.page.get_by_label("Tags, with commas").fill(",".join(f"{long[:-1]}{letter}" for letter in "bcdef"))
    user.page.get_by_label("Note", exact=True).fill("https://example.org/" + long * 4)
    user.fits()
    user.click("Keep", "button")
    for path in ["/", "/runs/7", "/runs/8", *KINDS]:
        user.go(path)
        user.fits()


def test_everything_is_reached_by_keyboard(place, visit):
    user = visit(place.serve("--from", CAPTURED))
    page = user.page
    user.take_token()
    for path in "/", "/runs/4", "/compare?run=1&run=2", "/experiments", "/machine", "/token", "/nothing":
        user.go(path)
        assert user.is_reached_by_keyboard() >= 6
    # From the list of runs to two of them side by side, and on to a note, without a pointer.
    user.go("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    for run in 2, 1:
        user.tab_to(f"input Compare run {run}")
        page.keyboard.press("Space")
    user.tab_to("button Compare the chosen")
    page.keyboard.press("Enter")
    user.heading("fragmentation: 2 runs")
    user.go("/runs/1")
    user.tab_to("summary Tags and note")
    page.keyboard.press("Enter")
    assert user.is_reached_by_keyboard() >= 15
    page.get_by_label("Tags, with commas").focus()
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="by-keyboard")).to_be_visible()


def test_all_can_be_read_and_done_without_javascript(place, visit):
    user = visit(place.serve("--from", CAPTURED), javascript=False)
    user.take_token()
    for path, words in KINDS.items():
        user.go(path)
        user.sees(words)
    user.go("/runs/4")
    assert user.curves().count() > 5
    # Numbers of charts are titles, and the inside is curves and a table.
    assert user.page.locator("g.strip title").count() > 50
    user.sees("Free blocks", "amplification")
    user.go("/experiments")
    user.choose("Experiment", "steady")
    user.page.get_by_label("Quick").uncheck()
    user.click("Start", "button")
    user.sees("Load this page again to see the progress")
    until(lambda: user.page.reload() and user.curves().count(), "a curve")
    # To load a page while another one comes is an error.
    with user.page.expect_navigation():
        user.click("Stop, and keep what was measured", "button")
    link = user.page.get_by_role("link", name="run 7")
    until(lambda: user.page.reload() and link.count(), "the end of the run")
    link.first.click()
    user.sees("Interrupted.")


# Colours do not depend on the width.
@pytest.mark.parametrize("width", [1280], indirect=True)
def test_a_dark_theme_for_those_who_have_one(place, visit):
    user = visit(place.serve("--from", CAPTURED), dark=True)
    user.take_token()
    for path in each_kind(user):
        assert user.page.evaluate(LIGHT) == [], path
        user.has_contrast()
    # Who changes over while looking has the picture of a drive change as well.
    user.go("/runs/4")
    user.page.get_by_label("Moment of the run").wait_for()
    before = user.page.evaluate(PICTURE)
    user.page.emulate_media(color_scheme="light")
    until(lambda: user.page.evaluate(PICTURE) != before, "the light picture")
    # Print is light.
    user.page.emulate_media(color_scheme="dark", media="print")
    assert user.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(252, 252, 251)"


def test_a_wrong_address_leads_to_a_clear_page(place, visit):
    user = visit(place.serve())
    for path, words in {
        "/nothing": "There is no such page.",
        "/runs/99": "There is no run 99",
        "/runs/last": "There is no such run.",
        "/experiments/1": "No experiment with that process ID is known.",
        "/experiments/x": "There is no such experiment.",
        "/drives/1": "No drive is attached by that process.",
        "/../etc/passwd": "There is no such page.",
    }.items():
        assert user.go(path) == 404
        user.heading("Not Found")
        user.sees(words)
        user.click("To the runs")
        user.heading("Runs")
    user.go("/?experiment=nonsense&page=7")
    user.sees("No run fits.")


def test_pages_of_several_runs_are_read_from_disk(place, visit):
    vary = "flash.page_read=50us,70us"
    place.run(
        "sweep", "fragmentation", SMALL, "--quick", "--quiet", "--seeds", "2", "--vary", vary, "--html", "sweep.html"
    )
    place.run("compare", "1", "2", "3", "--html", "compare.html")
    user = visit()
    for name, words in ("compare.html", "3 runs side by side"), ("sweep.html", "Seconds over flash.page_read"):
        user.page.goto((place.directory / name).as_uri())
        user.sees(words)
        user.is_described()
        user.is_reached_by_keyboard()
        user.fits()
    # On a telephone, too, both ends of an axis have their marks.
    for mark in "50us", "70us":
        expect(user.page.locator("text.tick", has_text=mark).first).to_be_visible()
    # The comparison's contents are those of the server's page.
    user.is_accessible()
    user.page.emulate_media(color_scheme="dark")
    user.has_contrast()


def test_the_playground_is_accessible(request, visit):
    file = request.config.getoption("--playground")
    if not file or not file.is_file():
        pytest.skip("the playground's page: scripts/playground has not made it")
    for dark in False, True:
        user = visit(dark=dark)
        user.page.goto(file.resolve().as_uri())
        until(lambda page=user.page: page.evaluate("!!window.playground"), "the playground")
        user.is_accessible()
        user.fits()
