// The charts, and the colours of the page; the picture of the inside is drawn as in reports.
const picture = (() => {
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const blocks = blockCells($('cells'), $('legend'), () => (document.documentElement.dataset.theme === 'light' ? '#dde2e9' : '#2b313b'));
  let colours = {};

  const takeColours = () => {
    for (const name of ['line', 'dim', 'host', 'copy', 'fold', 'pad', 'meta', 'form']) colours[name] = css(`--${name}`);
    blocks.takeColours();
  };

  function axes(canvas) {
    const ratio = Math.min(2, devicePixelRatio || 1), w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
    const g = canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = '12px system-ui, sans-serif'; g.lineWidth = 1;
    return { g, w, h };
  }
  const nice = (most) => { const step = 10 ** Math.floor(Math.log10(most)); return [1, 2, 5, 10].map((it) => it * step).find((it) => it >= most * .999); };

  // `series`: lists of points [x, y] with a colour; `mark`: a horizontal line.
  function chart(id, series, { mark, format, bottom = 0 }) {
    const { g, w, h } = axes($(id)), left = 44, base = h - 20, top = 8;
    const points = series.flatMap((it) => it.points);
    const most = nice(Math.max(1e-9, bottom * 1.5, mark || 0, ...points.map((it) => it[1])));
    const from = points.length ? Math.min(...points.map((it) => it[0])) : 0;
    const to = points.length ? Math.max(...points.map((it) => it[0])) : 1;
    const px = (x) => left + (w - left - 8) * (to > from ? (x - from) / (to - from) : 0), py = (y) => base - (base - top) * y / most;
    g.strokeStyle = colours.line; g.fillStyle = colours.dim;
    for (const part of [0, .5, 1]) {
      g.beginPath(); g.moveTo(left, py(most * part)); g.lineTo(w, py(most * part)); g.stroke();
      g.textAlign = 'right'; g.fillText(format(most * part), left - 5, py(most * part) + 4);
    }
    g.textAlign = 'left'; g.fillText(`${from.toFixed(to < 10 ? 2 : 0)}`, left, h - 5);
    g.textAlign = 'right'; g.fillText(`${to.toFixed(to < 10 ? 2 : 0)} × the drive written`, w - 4, h - 5);
    if (mark) {
      g.strokeStyle = colours.form; g.setLineDash([6, 4]); g.lineWidth = 2;
      g.beginPath(); g.moveTo(left, py(mark)); g.lineTo(w, py(mark)); g.stroke(); g.setLineDash([]);
    }
    for (const { points, colour } of series) {
      g.strokeStyle = colour; g.lineWidth = 2; g.beginPath();
      points.forEach(([x, y], index) => (index ? g.lineTo(px(x), py(y)) : g.moveTo(px(x), py(y))));
      g.stroke();
    }
  }

  // Counts by latency: eight buckets for each doubling from 1024 ns on.
  function latencies(counts, format) {
    const { g, w, h } = axes($('c-lat')), base = h - 20, half = counts.length / 2;
    const from = 32, to = Math.min(half, 8 * 17), bar = (w - 8) / (to - from), series = [counts.subarray(0, half), counts.subarray(half)];
    const shown = series.map((it) => it.reduce((sum, count) => sum + count, 0));
    series.forEach((list, index) => {
      if (!shown[index]) return;
      const most = Math.max(...list);
      g.fillStyle = index ? colours.copy : colours.host; g.globalAlpha = index ? .75 : 1;
      for (let at = from; at < to; at++) {
        const height = list[at] ? Math.max(1, (base - 8) * Math.log1p(list[at]) / Math.log1p(most)) : 0;
        g.fillRect(4 + (at - from) * bar, base - height, Math.max(1, bar - 1), height);
      }
      g.globalAlpha = 1;
    });
    g.fillStyle = colours.dim; g.strokeStyle = colours.line; g.textAlign = 'center';
    g.beginPath(); g.moveTo(0, base); g.lineTo(w, base); g.stroke();
    for (const ns of [1e5, 1e6, 1e7]) g.fillText(format(ns), 4 + ((Math.log2(ns) - 10) * 8 - from) * bar, h - 5);
  }

  return { MODES: blocks.MODES, takeColours, cells: blocks.draw, chart, latencies, swatch: blocks.swatch, colour: (name) => colours[name], setMode: blocks.setMode, get mode() { return blocks.mode; } };
})();
