"""Runs that were kept: looked for, read, compared, saved, noted, deleted."""

import json
import re
from datetime import datetime, timedelta

from playwright.sync_api import expect

from place import SMALL
from visitor import PICTURE

TOKEN = "a-token-for-journeys-0"
# How long a picture of the inside is shown while it is played, in milliseconds.
A_PICTURE = 100


def test_an_empty_place_says_how_to_begin(empty_place, visit):
    user = visit(empty_place.serve())
    user.go("/")
    user.sees("No runs are kept yet", "ssdlab run fragmentation", "Read-only")
    user.click("Attached drives")
    user.sees("No drive is attached", "ssdlab attach disk.ssd")
    user.click("Runs")
    user.click("Start an experiment")
    user.heading("Experiments")
    user.sees("No experiment is running")
    user.click("the token")
    user.sees("Changes need the token")


def test_runs_are_filtered(place, visit):
    user = visit(place.serve())
    page = user.page
    user.go("/")
    user.sees("6 runs, newest first")
    user.choose("Experiment", "fragmentation")
    user.click("Filter", "button")
    user.sees("4 runs")
    user.choose("Drive", SMALL)
    user.click("Filter", "button")
    user.sees("3 runs")
    expect(user.choice("Experiment")).to_have_value("fragmentation")
    expect(page.locator("table.runs tbody tr")).to_have_count(3)
    page.get_by_label("Words").fill("no run says this")
    page.keyboard.press("Enter")
    user.sees("No run fits.")
    page.go_back()
    user.sees("3 runs")


def test_many_runs_are_on_several_pages(place, visit):
    columns = "started, experiment, target, seed, shortened, interrupted, report"
    place.change(f"INSERT INTO runs ({columns}) SELECT {columns} FROM runs WHERE id = ?", [(1,)] * 50)
    user = visit(place.serve())
    user.go("/?experiment=fragmentation")
    user.sees("54 runs", "Page 1 of 2")
    user.click("Older")
    user.sees("54 runs", "Page 2 of 2")
    expect(user.page.locator("table.runs tbody tr")).to_have_count(4)
    user.click("Newer")
    user.sees("Page 1 of 2")


def test_a_run_is_tagged_and_noted(place, visit):
    user = visit(place.serve())
    page = user.page
    user.take_token()
    user.go("/runs/2")
    page.get_by_text("Tags and note").click()
    page.get_by_label("Tags, with commas").fill("warm, <b>first</b>")
    page.get_by_label("Note", exact=True).fill("Room at 30 °C.\n<script>alert(1)</script>")
    user.click("Keep", "button")
    user.sees("warm", "<b>first</b>", "Room at 30 °C.", "<script>alert(1)</script>")
    user.click("warm")
    user.sees("1 run.", "Room at 30 °C.")
    expect(user.choice("Tag")).to_have_value("warm")
    user.go("/?words=30+°C")
    user.sees("1 run.")
    user.fits()


def test_a_run_is_deleted(place, visit):
    user = visit(place.serve())
    page = user.page
    user.take_token()
    user.go("/runs/3")
    page.get_by_text("Tags and note").click()
    user.click("Delete", "button")
    # It asks to be sure.
    expect(page.get_by_label("Delete run 3")).to_be_focused()
    user.heading(SMALL)
    page.get_by_label("Delete run 3").check()
    user.click("Delete", "button")
    user.heading("Runs")
    user.sees("5 runs")
    assert user.go("/runs/3") == 404
    user.sees("There is no run 3")
    assert "3" not in [run["id"] for run in json.loads(place.run("list", "runs", "--json"))]


def test_nothing_is_changed_without_the_token(place, visit):
    user = visit(place.serve())
    for path in "/runs/1", "/experiments", "/":
        user.go(path)
        user.sees("Read-only")
        assert user.page.locator("form[method=post]").count() == 0
    # What a page of another program at this address might try.
    for path, body in (
        ("/runs/1/delete", "sure=yes"),
        ("/runs/1", "tags=x"),
        ("/experiments", "experiment=steady&target=sim:"),
    ):
        ask = "([path, body]) => fetch(path, { method: 'POST', body }).then((answer) => answer.status)"
        assert user.page.evaluate(ask, [path, body]) == 401
    user.go("/")
    user.sees("6 runs")
    user.go("/experiments")
    user.sees("No experiment is running", "That needs the token")


def test_the_token_is_refused_given_and_forgotten(place, visit):
    user = visit(place.serve())
    page = user.page
    user.go("/experiments")
    user.click("the token")
    page.get_by_label("Token").fill("0123456789abcdef")
    user.click("Go on", "button")
    user.sees("That token differs")
    page.get_by_label("Token").fill(user.server.token)
    page.keyboard.press("Enter")
    user.heading("Experiments")
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    assert user.server.token not in page.url
    user.click("Forget the token", "button")
    user.heading("Runs")
    user.sees("Read-only")


def test_a_guarded_server_asks_before_it_shows_anything(place, visit):
    file = place.directory / "token"
    file.touch(mode=0o600)
    file.write_text(TOKEN)
    user = visit(place.serve("--token-file", file))
    assert user.go("/runs/1") == 401
    user.sees("Reading needs the token")
    user.sees_not("Sequential reads")
    user.page.get_by_label("Token").fill(TOKEN)
    user.click("Go on", "button")
    user.heading(SMALL)
    user.sees("Sequential reads")


def test_a_report_is_read(place, visit):
    user = visit(place.serve())
    page = user.page
    user.go("/")
    user.click("1")
    user.heading(SMALL)
    user.sees("Sequential reads became", "These figures are not comparable", "random writes")
    user.click("Latency histograms")
    expect(page.get_by_role("heading", name="Latency histograms")).to_be_in_viewport()
    # The numbers of a chart, where the pointer is.
    strip = page.locator("g.strip rect").nth(10)
    strip.scroll_into_view_if_needed()
    box = strip.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".tip")).to_contain_text(re.compile(r"at .*\n.*MB/s"))
    user.click("Runs like it")
    user.sees("3 runs")


def test_three_runs_are_compared(place, visit):
    user = visit(place.serve())
    page = user.page
    user.go("/")
    for run in 1, 2, 3:
        page.get_by_label(f"Compare run {run}").check()
    user.click("Compare the chosen runs", "button")
    user.heading("fragmentation: 3 runs")
    for seed in 1, 2, 3:
        expect(page.locator("main ul.legend li", has_text=f"seed {seed}").first).to_be_visible()
    user.sees("After all writes, reading takes", "Differences", "The runs")
    assert user.curves().count() >= 3
    user.is_described()
    for runs, words in (("run=1", "Choose two runs or more"), ("run=1&run=5", "fragmentation"), ("run=1&run=99", "99")):
        assert user.go(f"/compare?{runs}") in (400, 404)
        expect(page.locator(".refused")).to_contain_text(words)


def test_the_trend_of_a_drive(place, visit):
    dates = [("2026-03-01T00:00:00Z", 1), ("2026-03-05T12:00:00Z", 2), ("2026-03-11T00:00:00Z", 3)]
    rows = [(date, date, run) for date, run in dates]
    place.change("UPDATE runs SET report = replace(report, started, ?), started = ? WHERE id = ?", rows)
    user = visit(place.serve())
    user.go("/runs/3")
    user.click("Trend")
    user.heading(f"fragmentation on {SMALL}")
    user.sees("3 runs since 2026-03-01 00:00 UTC", "over days")
    # Three points of each figure, from the left end to the right, the second at 4.5 of 10 days.
    line = user.curves().nth(1).get_attribute("d")
    places = [float(point.split()[0]) for point in re.split("[ML]", line)[1:]]
    assert places == [0.0, 450.0, 1000.0], line
    user.click("The runs")
    user.sees("3 runs")
    user.go("/trend?experiment=latency&target=sim%3A%2Cscale%3D1%2F64")
    user.sees("A trend takes two finished runs or more")


def test_a_saved_page_works_from_disk(place, visit):
    user = visit(place.serve())
    user.go("/runs/4")
    with user.page.expect_download() as waiting:
        user.click("Save as one file")
    file = place.directory / waiting.value.suggested_filename
    waiting.value.save_as(file)
    assert file.name == "ssdlab-run-4.html"
    user.server.end()

    reader = visit(offline=True)
    reader.page.goto(file.as_uri())
    reader.heading("sim:toshiba-xg5")
    expect(reader.page.get_by_label("Moment of the run")).to_be_visible()
    with reader.page.expect_download() as waiting:
        reader.click("Save the data as JSON", "button")
    waiting.value.save_as(place.directory / "data.json")
    assert json.loads((place.directory / "data.json").read_text()) == json.loads(place.run("show", "4", "--json"))
    assert [url for url in reader.requests if not url.startswith(("file:", "blob:"))] == []
    reader.fits()
    reader.is_accessible()


def test_the_inside_is_played(place, visit):
    user = visit(place.serve())
    page = user.page
    page.clock.install()
    user.go("/runs/4")
    slider = page.get_by_label("Moment of the run")
    last = int(slider.get_attribute("max"))
    said = page.locator(".inside .moment")
    slider.focus()
    page.keyboard.press("Home")
    expect(said).to_contain_text("Step “fill”, 4.0 MiB written by the host")
    first = page.evaluate(PICTURE)
    marks = page.locator(".over line.now")
    expect(marks).to_have_count(2)
    expect(marks.last).to_have_attribute("x1", "0.7%")
    page.keyboard.press("End")
    expect(marks.last).to_have_attribute("x1", "100.0%")
    expect(said).to_contain_text("Step “random writes, 250 MiB”")
    assert page.evaluate(PICTURE) != first
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_value(str(last - 1))
    before = page.evaluate(PICTURE)
    page.get_by_label("Colour by").select_option("state")
    expect(page.locator(".inside")).to_contain_text("open for the host")
    assert page.evaluate(PICTURE) != before
    # It plays on to the end, and begins anew from there.
    slider.fill(str(last - 8))
    page.clock.pause_at(datetime.now() + timedelta(hours=1))
    user.click("Play", "button")
    page.clock.run_for(8 * A_PICTURE)
    expect(slider).to_have_value(str(last))
    user.click("Play", "button")
    page.clock.run_for(3 * A_PICTURE)
    expect(slider).to_have_value("3")
    user.click("Stop", "button")
    page.clock.resume()
    # It stays a picture when its page is made smaller, and when it was hidden meanwhile.
    height = page.locator("canvas").bounding_box()["height"]
    page.evaluate(
        "() => { document.querySelector('.inside').style.display = 'none'; dispatchEvent(new Event('resize')); }"
    )
    page.evaluate("() => { document.querySelector('.inside').style.display = ''; }")
    page.set_viewport_size({"width": 400, "height": 700})
    expect(page.locator("canvas")).to_have_js_property("width", page.locator("canvas").evaluate("it => it.clientWidth"))
    assert 0 < page.locator("canvas").bounding_box()["height"] < 2 * height
    user.fits()
