// Shows what changes: the server sends parts of the page as they are now. Without this script the page is as
// it was when it was loaded.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (!live || !live.dataset.events) return;
  const stops = () => [...live.querySelectorAll("a[href], summary, [tabindex]")];
  const boxes = () => [...live.querySelectorAll(".scroll")];
  // The blocks of a drive, in the colours that the reader has chosen.
  let mode = "valid", select = null;
  const drawBlocks = () => {
    for (const canvas of live.querySelectorAll("canvas[data-cells]")) {
      canvas.hidden = false;
      const free = () => getComputedStyle(canvas).getPropertyValue("--free").trim();
      const picture = blockCells(canvas, canvas.nextElementSibling, free);
      if (!select) offerModes(picture.MODES);
      picture.takeColours();
      picture.setMode(mode);
      picture.draw(Uint8Array.from(atob(canvas.dataset.cells), (sign) => sign.charCodeAt(0)), 1);
    }
  };
  const offerModes = (modes) => {
    const label = document.createElement("label");
    label.append("Colour the blocks by ", select = document.createElement("select"));
    for (const [value, { name }] of Object.entries(modes)) select.add(new Option(name, value));
    select.addEventListener("change", () => { mode = select.value; drawBlocks(); });
    live.before(label);
  };
  // Whatever changes their width or colours.
  let width = 0;
  new ResizeObserver(() => {
    if (live.clientWidth !== width) requestAnimationFrame(drawBlocks);
    width = live.clientWidth;
  }).observe(live);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawBlocks);

  // Elements by name and number: others may come before an element or go, and it is still the same one.
  const named = (elements) => {
    const seen = new Map();
    return new Map(elements.map((element) => {
      const name = element.getAttribute("aria-label") ?? element.textContent;
      seen.set(name, (seen.get(name) ?? 0) + 1);
      return [`${seen.get(name)} ${name}`, element];
    }));
  };
  // The keyboard focus and the scroll positions of tables stay when the content is replaced.
  const show = (event) => {
    const place = stops().indexOf(document.activeElement);
    const focused = [...named(stops())].find(([, stop]) => stop === document.activeElement)?.[0];
    const scrolled = new Map([...named(boxes())].map(([name, box]) => [name, box.scrollLeft]));
    live.innerHTML = JSON.parse(event.data);
    for (const [name, box] of named(boxes())) box.scrollLeft = scrolled.get(name) ?? 0;
    (named(stops()).get(focused) ?? stops()[place])?.focus({ preventScroll: true });
    lost.textContent = "";
    drawBlocks();
  };
  // It is there from the beginning, so that screen readers say what comes to stand in it.
  const lost = document.createElement("p");
  lost.className = "refused";
  lost.setAttribute("role", "status");
  live.before(lost);

  const source = new EventSource(live.dataset.events);
  source.addEventListener("message", show);
  source.addEventListener("over", (event) => {
    source.close();
    show(event);
    document.getElementById("stop")?.remove();
    live.setAttribute("aria-live", "polite");
  });
  source.addEventListener("error", () => {
    lost.textContent = source.readyState === EventSource.CLOSED
      ? "This page is no longer updated: load it again."
      : "The server does not answer. This is what it showed last.";
  });
})();
