"""Somebody who looks at pages in a browser, and what is to hold of every page that they see."""

import importlib.resources

from playwright.sync_api import expect

AXE = (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text()

# Every element that is to be reached by keyboard, as the page shows it now.
REACHABLE = """() => [...document.querySelectorAll(
  'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')]
  .filter((it) => !it.disabled && it.checkVisibility({ visibilityProperty: true })
    && !(it.type === 'radio' && !it.checked))"""

# Has Tab begin with the first element, wherever the keyboard was.
FROM_THE_TOP = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute('tabindex');
  scrollTo(0, 0);
}"""

# Where the keyboard is: the index among those, whether it shows, and what it is.
FOCUSED = f"""() => {{
  const it = document.activeElement;
  if (!it || it === document.body) return null;
  const style = getComputedStyle(it), box = it.getBoundingClientRect();
  return {{
    index: ({REACHABLE})().indexOf(it),
    words: it.tagName.toLowerCase() + ' ' + (it.getAttribute('aria-label') || it.textContent || it.name || '')
      .trim().slice(0, 40),
    shows: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  }};
}}"""

# Drawings that are not part of another one, and what a screen reader is told of them.
DRAWINGS = """() => [...document.querySelectorAll('svg')]
  .filter((it) => !it.parentElement.closest('svg'))
  .map((it) => ({
    role: it.getAttribute('role'),
    title: it.getAttribute('aria-label') || it.querySelector(':scope > title')?.textContent || '',
    words: it.querySelector(':scope > desc')?.textContent || '',
  }))"""

# What is seen of the inside of a drive.
PICTURE = "() => document.querySelector('canvas').toDataURL()"

# What makes the page wider than its window: elements that reach beyond it, and are in no box that scrolls by itself.
TOO_WIDE = """() => {
  const most = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= most) return [];
  const names = [...document.body.querySelectorAll('*')]
    .filter((it) => it.getBoundingClientRect().right > most + 1 && !it.closest('.scroll, pre'))
    .map((it) => it.tagName.toLowerCase() + '.' + it.getAttribute('class'));
  return [`${document.documentElement.scrollWidth} px at ${most}`, ...new Set(names)].slice(0, 6);
}"""


class Visitor:
    """A browser of its own, at a server."""

    def __init__(self, browser, width, server=None, *, javascript=True, dark=False, offline=False):
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
            offline=offline,
            accept_downloads=True,
        )
        self.context.set_default_timeout(30_000)
        self.server = server
        self.problems = []
        self.requests = []
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("console", self._heard)
        self.page.on("request", self._asked)

    def _heard(self, message):
        # That a page could not be had is what some journeys are about; they look at what it says instead.
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"console: {message.text}")

    def _asked(self, request):
        self.requests.append(request.url)
        own = self.server.address if self.server else None
        if not (request.url.startswith(("data:", "blob:", "file:")) or own and request.url.startswith(own + "/")):
            self.problems.append(f"request to {request.url}")

    def close(self):
        self.context.close()
        assert not self.problems, self.problems

    # Going about

    def go(self, path):
        """Opens a page of the server; returns the status of the answer."""
        return self.page.goto(self.server.address + path).status

    def take_token(self):
        """Opens the address with the token that the server printed."""
        assert self.go(f"/token?token={self.server.token}") == 200

    def click(self, name, role="link"):
        self.page.get_by_role(role, name=name, exact=True).click()

    def choice(self, name):
        return self.page.get_by_role("combobox", name=name, exact=True)

    def choose(self, name, value):
        self.choice(name).select_option(value)

    def sees(self, *words):
        """Each is somewhere on the page, in view of the user."""
        for text in words:
            expect(self.page.locator("body")).to_contain_text(text, use_inner_text=True)

    def sees_not(self, *words):
        for text in words:
            expect(self.page.locator("body")).not_to_contain_text(text, use_inner_text=True)

    def heading(self, words):
        expect(self.page.get_by_role("heading", level=1)).to_contain_text(words)

    def curves(self):
        """The outlines of the curves there are."""
        return self.page.locator("path.curve")

    # What is to hold of every page

    def fits(self):
        """The page is not wider than its window."""
        wide = self.page.evaluate(TOO_WIDE)
        assert not wide, f"{self.page.url} is too wide: {wide}"

    def is_described(self):
        """Each drawing has a role, a title and a description."""
        drawings = self.page.evaluate(DRAWINGS)
        bare = [it for it in drawings if it["role"] != "img" or not it["title"].strip() or not it["words"].strip()]
        assert not bare, f"{self.page.url}: {len(bare)} of {len(drawings)} drawings are not described: {bare[:3]}"
        return len(drawings)

    def is_accessible(self):
        """axe-core finds nothing that is serious or critical."""
        self._examined({})

    def has_contrast(self):
        """Words differ from what is behind them, also where only colours are others."""
        self._examined({"runOnly": ["color-contrast"]})

    def _examined(self, options):
        self.page.evaluate(AXE)
        run = "(options) => axe.run(document, { resultTypes: ['violations'], ...options })"
        found = self.page.evaluate(run, options)["violations"]
        grave = [
            "{impact}: {id}, {help}: ".format(**it) + "; ".join(node["html"][:160] for node in it["nodes"][:3])
            for it in found
            if it["impact"] in ("serious", "critical")
        ]
        assert not grave, f"{self.page.url}: " + "\n".join(grave)

    def is_reached_by_keyboard(self):
        """Tab goes to everything there is in order, shows where it is, and leaves at the end. Returns how many."""
        self.page.evaluate(FROM_THE_TOP)
        count = self.page.evaluate(f"({REACHABLE})().length")
        stops = []
        # One more leads out of the page.
        for _ in range(count + 1):
            self.page.keyboard.press("Tab")
            stop = self.page.evaluate(FOCUSED)
            if stop is None or stops and stop["index"] == stops[0]["index"]:
                break
            stops.append(stop)
        hidden = [stop["words"] for stop in stops if not stop["shows"] or not stop["inside"]]
        assert not hidden, f"{self.page.url}: focus does not show at {hidden}"
        assert [stop["index"] for stop in stops] == list(range(count)), (
            f"{self.page.url}: {count} elements, but {stops}"
        )
        return count

    def tab_to(self, words):
        """Presses Tab until the keyboard is at an element that begins so."""
        for _ in range(200):
            self.page.keyboard.press("Tab")
            stop = self.page.evaluate(FOCUSED)
            if stop and stop["words"].startswith(words):
                return
        raise AssertionError(f"Tab does not lead to {words!r} on {self.page.url}")
