// The picture of the inside, the charts, and their colours.
const picture = (() => {
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const pack = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
  const stops = (list) => Array.from({ length: 256 }, (_, index) => {
    const at = index / 255 * (list.length - 1), low = Math.min(Math.floor(at), list.length - 2);
    return list[low].map((value, part) => Math.round(value + (list[low + 1][part] - value) * (at - low)));
  });
  // Light to dark in steps that differ for the colour-blind as well (after viridis and inferno).
  const RAMPS = {
    valid: stops([[48, 18, 92], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]]),
    age: stops([[252, 255, 164], [249, 142, 9], [188, 55, 84], [87, 16, 110], [30, 12, 60]]),
    erases: stops([[40, 70, 120], [80, 150, 190], [230, 200, 120], [230, 120, 60], [220, 40, 40]]),
  };
  const MODES = {
    valid: { name: 'valid share', ends: ['nothing valid', 'all valid'] },
    age: { name: 'age', ends: ['just written', 'written long ago'] },
    stream: { name: 'stream' },
    erases: { name: 'erase count', ends: ['least worn', '20 erases more'] },
    state: { name: 'state' },
  };
  let mode = 'valid', colours = {}, image = null;

  const takeColours = () => {
    for (const name of ['back', 'line', 'text', 'dim', 'host', 'copy', 'fold', 'pad', 'meta', 'victim', 'form', 'panel']) colours[name] = css(`--${name}`);
    colours.free = document.documentElement.dataset.theme === 'light' ? '#dde2e9' : '#2b313b';
    image = null;
    legend();
  };

  const swatch = (colour, text, ring) => `<span class="key"><span class="swatch${ring ? ' ring' : ''}" style="${ring ? 'border-color' : 'background'}:${colour}"></span>${text}</span>`;
  const rings = () => ` ${swatch(colours.host, 'host writes here', true)} ${swatch(colours.copy, 'copies go here', true)} ${swatch(colours.victim, 'being collected', true)}`;
  function legend() {
    const free = swatch(colours.free, 'free');
    let text = '';
    if (RAMPS[mode]) {
      const ramp = [0, 64, 128, 192, 255].map((at) => `rgb(${RAMPS[mode][at]})`).join(',');
      const [low, high] = MODES[mode].ends;
      text = `${low}<span class="scale" style="background:linear-gradient(90deg,${ramp})"></span>${high} ${free}`;
    } else if (mode === 'stream') {
      text = `${swatch(colours.host, 'written by the host')} ${swatch(colours.copy, 'copied by garbage collection')} ${swatch(colours.fold, 'SLC cache')} ${swatch(colours.pad, 'from before')} ${free}`;
    } else {
      text = `${free} ${swatch(colours.form, 'full')} ${swatch(colours.fold, 'full, SLC')} ${swatch(colours.host, 'open for the host')} ${swatch(colours.copy, 'open for copies')} ${swatch(colours.victim, 'being collected')}`;
      $('legend').innerHTML = text;
      return;
    }
    $('legend').innerHTML = text + rings();
  }

  function colourOf(cells, at, packed) {
    const flags = cells[at], use = flags & 7;
    if (use === 0 || use === 5) return packed.free;
    if (mode === 'valid') return packed.valid[cells[at + 1]];
    if (mode === 'age') return cells[at + 2] === 255 ? packed.pad : packed.age[Math.min(255, cells[at + 2] * 2)];
    if (mode === 'erases') return packed.erases[Math.min(255, cells[at + 3] * 12)];
    if (mode === 'stream') return flags & 16 ? packed.fold : cells[at + 2] === 255 ? packed.pad : flags & 8 ? packed.copy : packed.host;
    return use === 1 ? packed.host : use === 2 ? packed.copy : use === 4 ? packed.victim : flags & 16 ? packed.fold : packed.form;
  }

  function prepare(canvas, count, groups) {
    const ratio = Math.min(2, devicePixelRatio || 1), width = Math.round(canvas.clientWidth * ratio);
    const most = innerWidth < 860 ? 260 : 330;
    const bands = groups > 1 ? groups : 1, each = Math.ceil(count / bands), gap = bands > 1 ? Math.round(3 * ratio) : 0;
    let size = Math.round((bands > 1 ? 12 : 16) * ratio), columns, rows;
    for (; ; size--) {
      columns = Math.max(1, Math.floor(width / size));
      rows = Math.ceil(each / columns);
      if (size === 2 || bands * rows * size + (bands - 1) * gap <= most * ratio) break;
    }
    const height = bands * rows * size + (bands - 1) * gap;
    canvas.width = width; canvas.height = height; canvas.style.height = `${height / ratio}px`;
    const context = canvas.getContext('2d'), data = context.createImageData(width, height);
    const packed = { free: pack(rgb(colours.free)) };
    for (const name of ['host', 'copy', 'fold', 'pad', 'victim', 'form']) packed[name] = pack(rgb(colours[name]));
    for (const name of Object.keys(RAMPS)) packed[name] = RAMPS[name].map(pack);
    image = { count, groups, width, clientWidth: canvas.clientWidth, size, columns, rows, each, gap, context, data, words: new Uint32Array(data.data.buffer), packed };
    image.words.fill(pack(rgb(colours.panel)));
  }

  // One square a block; a band of rows for each group of dies that has blocks of its own.
  function cells(bytes, groups) {
    const canvas = $('cells'), count = bytes.length / 4;
    if (!image || image.count !== count || image.groups !== groups || image.clientWidth !== canvas.clientWidth) prepare(canvas, count, groups);
    const { words, width, size, columns, rows, each, gap, packed } = image, line = size > 3 ? 1 : 0, ring = size > 7 ? Math.round(size / 6) : 1;
    for (let block = 0; block < count; block++) {
      const band = Math.floor(block / each), place = block - band * each;
      const left = (place % columns) * size, top = band * (rows * size + gap) + Math.floor(place / columns) * size, end = size - line;
      const fill = colourOf(bytes, block * 4, packed), use = bytes[block * 4] & 7;
      const edge = use === 1 ? packed.host : use === 2 ? packed.copy : use === 4 ? packed.victim : 0;
      for (let y = 0; y < end; y++) {
        const from = (top + y) * width + left;
        words.fill(fill, from, from + end);
        if (edge && size > 4) {
          if (y < ring || y >= end - ring) words.fill(edge, from, from + end);
          else { words.fill(edge, from, from + ring); words.fill(edge, from + end - ring, from + end); }
        }
      }
    }
    image.context.putImageData(image.data, 0, 0);
  }

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

  return { MODES, takeColours, cells, chart, latencies, swatch, colour: (name) => colours[name], setMode(to) { mode = to; legend(); }, get mode() { return mode; } };
})();
