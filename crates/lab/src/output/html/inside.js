// Shows what was recorded of the inside of a drive: a picture for each moment, a slider over the run.
(() => {
  "use strict";
  const places = document.querySelectorAll("div.inside[data-recording]");
  if (!places.length || typeof DecompressionStream !== "function") return;
  const data = document.getElementById("data");
  const all = data ? JSON.parse(data.textContent).recordings : null;

  const unpack = async (text) => {
    const packed = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const make = (parent, name, properties = {}) => {
    const it = Object.assign(document.createElement(name), properties);
    parent.append(it);
    return it;
  };
  const size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = 0;
    while (bytes >= 1024 && at < 4) { bytes /= 1024; at++; }
    return `${bytes.toFixed(bytes < 10 && at ? 1 : 0)} ${units[at]}`;
  };

  const show = async (place) => {
    const own = place.querySelector("script.recording");
    const { steps, blocks, pictures, cells } = own ? JSON.parse(own.textContent) : all[place.dataset.recording];
    const bytes = await unpack(cells), each = bytes.length / pictures.length;
    if (!Number.isInteger(each / 4) || !each) return;
    place.hidden = false;
    const canvas = make(place, "canvas", { role: "img" });
    const legend = make(place, "p", { className: "faint" });
    const controls = make(place, "div", { className: "controls" });
    const play = make(controls, "button", { type: "button", textContent: "Play" });
    const slider = make(controls, "input", { type: "range", min: 0, max: pictures.length - 1, value: pictures.length - 1 });
    slider.setAttribute("aria-label", "Moment of the run");
    const label = make(controls, "label", { textContent: "Colour by " });
    const select = make(label, "select");
    const said = make(place, "p", { className: "moment" });
    said.setAttribute("aria-live", "polite");
    const free = () => getComputedStyle(place).getPropertyValue("--free").trim();
    const picture = blockCells(canvas, legend, free);
    for (const [value, { name }] of Object.entries(picture.MODES)) make(select, "option", { value, textContent: name });

    // A line in each curve below, at the moment that is shown.
    const marks = [...place.parentNode.querySelectorAll("[data-places]")].map((over) => {
      const drawing = over.querySelector("svg[role]"), places = over.dataset.places.split(" ");
      const mark = document.createElementNS(drawing.namespaceURI, "line");
      mark.setAttribute("class", "now");
      mark.setAttribute("y2", "100%");
      // Below what the pointer is over.
      drawing.insertBefore(mark, drawing.querySelector("g.strip"));
      return (at) => { for (const end of ["x1", "x2"]) mark.setAttribute(end, `${places[at]}%`); };
    });

    const draw = () => {
      const at = Number(slider.value), now = pictures[at], before = pictures[at - 1];
      picture.draw(bytes.subarray(at * each, (at + 1) * each), 1);
      for (const mark of marks) mark(at);
      const host = before ? now.host_written_bytes - before.host_written_bytes : 0;
      const ratio = host > 0 ? (now.flash_written_bytes - before.flash_written_bytes) / host : null;
      const words = [
        `Step “${(steps[now.step] || "").replaceAll("_", " ")}”`,
        `${size(now.host_written_bytes)} written by the host`,
        ratio === null ? "nothing written since the moment before" : `write amplification ${ratio.toFixed(2)}`,
        `${now.free_blocks} of ${blocks} blocks free`,
      ];
      said.textContent = `${words.join(", ")}.`;
      canvas.setAttribute("aria-label", `The blocks of the drive. ${said.textContent}`);
    };
    let timer = 0;
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (Number(slider.value) >= pictures.length - 1) slider.value = 0;
      play.textContent = "Stop";
      said.setAttribute("aria-live", "off");
      timer = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        draw();
        if (Number(slider.value) >= pictures.length - 1) { stop(); said.setAttribute("aria-live", "polite"); }
      }, 100);
    });
    slider.addEventListener("input", () => { stop(); draw(); });
    select.addEventListener("change", () => { picture.setMode(select.value); draw(); });
    const again = () => { picture.takeColours(); draw(); };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    // Whatever changes its width: the window, or that it was hidden. A new width may mean a new height, which
    // is for the next frame.
    let width = 0;
    new ResizeObserver(() => {
      if (canvas.clientWidth !== width) requestAnimationFrame(draw);
      width = canvas.clientWidth;
    }).observe(canvas);
    again();
  };
  for (const place of places) show(place);
})();
