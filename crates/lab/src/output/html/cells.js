// The inside of a drive as a picture: a square for each block, in the colours of the page. Used by reports and by
// the playground.
//
// `blockCells(canvas, legend, free)` draws on a canvas and keeps the legend beside it. Colours are the page's
// properties --host, --copy, --fold, --pad, --victim, --form and --panel, and `free()`, each as #rrggbb.
const blockCells = (canvas, legend, free) => {
  const css = (name) => getComputedStyle(canvas).getPropertyValue(`--${name}`).trim();
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

  const swatch = (colour, text, ring) => `<span class="key"><span class="swatch${ring ? ' ring' : ''}" style="${ring ? 'border-color' : 'background'}:${colour}"></span>${text}</span>`;
  function explain() {
    const unused = swatch(colours.free, 'free');
    const rings = ` ${swatch(colours.host, 'host writes here', true)} ${swatch(colours.copy, 'GC writes here', true)} ${swatch(colours.victim, 'being collected', true)}`;
    if (RAMPS[mode]) {
      const ramp = [0, 64, 128, 192, 255].map((at) => `rgb(${RAMPS[mode][at]})`).join(',');
      const [low, high] = MODES[mode].ends;
      legend.innerHTML = `${low}<span class="scale" style="background:linear-gradient(90deg,${ramp})"></span>${high} ${unused}${rings}`;
    } else if (mode === 'stream') {
      legend.innerHTML = `${swatch(colours.host, 'written by the host')} ${swatch(colours.copy, 'copied by garbage collection')} ${swatch(colours.fold, 'SLC cache')} ${swatch(colours.pad, 'age not known')} ${unused}${rings}`;
    } else {
      legend.innerHTML = `${unused} ${swatch(colours.form, 'full')} ${swatch(colours.fold, 'full, SLC')} ${swatch(colours.host, 'open for the host')} ${swatch(colours.copy, 'open for GC')} ${swatch(colours.victim, 'being collected')}`;
    }
  }
  // To be called when the page's colours have changed.
  const takeColours = () => {
    for (const name of ['host', 'copy', 'fold', 'pad', 'victim', 'form', 'panel']) colours[name] = css(name);
    colours.free = free();
    image = null;
    explain();
  };

  function colourOf(cells, at, packed) {
    const flags = cells[at], use = flags & 7;
    if (use === 0 || use === 5) return packed.free;
    if (mode === 'valid') return packed.valid[cells[at + 1]];
    if (mode === 'age') return cells[at + 2] === 255 ? packed.pad : packed.age[Math.min(255, cells[at + 2] * 2)];
    if (mode === 'erases') return packed.erases[Math.min(255, cells[at + 3] * 12)];
    if (mode === 'stream') return flags & 16 ? packed.fold : cells[at + 2] === 255 ? packed.pad : flags & 8 ? packed.copy : packed.host;
    return use === 1 ? packed.host : use === 2 ? packed.copy : use === 4 ? packed.victim : flags & 16 ? packed.fold : packed.form;
  }

  function prepare(count, groups) {
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
    const packed = {};
    for (const name of ['free', 'host', 'copy', 'fold', 'pad', 'victim', 'form']) packed[name] = pack(rgb(colours[name]));
    for (const name of Object.keys(RAMPS)) packed[name] = RAMPS[name].map(pack);
    image = { count, groups, width, clientWidth: canvas.clientWidth, size, columns, rows, each, gap, context, data, words: new Uint32Array(data.data.buffer), packed };
    image.words.fill(pack(rgb(colours.panel)));
  }

  // Four bytes a block; a band of rows for each group of dies that has blocks of its own.
  function draw(bytes, groups) {
    // A canvas that is not laid out has no room for a picture; who shows it draws again.
    if (!canvas.clientWidth) return;
    const count = bytes.length / 4;
    if (!image || image.count !== count || image.groups !== groups || image.clientWidth !== canvas.clientWidth) prepare(count, groups);
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

  return { MODES, takeColours, draw, swatch, setMode(to) { mode = to; explain(); }, get mode() { return mode; } };
};
