// The model in WebAssembly: numbers and text cross, nothing else.
const engine = await (async () => {
  const packed = Uint8Array.from(atob(WASM), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const module = await WebAssembly.compile(await new Response(unpacked).arrayBuffer());
  let x, names;
  const text = (at, length) => new TextDecoder().decode(new Uint8Array(x.memory.buffer, at, length));
  const start = () => {
    x = new WebAssembly.Instance(module, {}).exports;
    x.figure_names();
    names = text(x.text_room(x.text_length()), x.text_length()).split(',');
  };
  // A panic of the model ends its instance: the next drive is made in a fresh one.
  const guarded = (act) => {
    try {
      return act();
    } catch (error) {
      const said = x.panic_length() ? text(x.panic_text(), x.panic_length()) : error.message;
      start();
      throw new Error(said);
    }
  };
  const numbers = () => new Float64Array(x.memory.buffer, x.numbers(), x.numbers_length());
  const said = () => text(x.text_room(x.text_length()), x.text_length());
  start();
  return {
    create(profile, changes, startState, seed) {
      const lines = [profile, ...changes.map(([key, value]) => `${key}=${value}`)].join('\n');
      const encoded = new TextEncoder().encode(lines);
      const at = x.text_room(encoded.length);
      new Uint8Array(x.memory.buffer, at, encoded.length).set(encoded);
      const code = { new: 0, filled: 1, steady: 2 }[startState];
      if (!guarded(() => x.create(code, seed))) throw new Error(said());
    },
    knobs: (k) => guarded(() => x.set_knobs(k.request, k.skew, k.used, k.flush, k.depth, k.sequential ? 1 : 0)),
    advance: (units) => guarded(() => x.advance(units)),
    trim: () => guarded(() => x.trim_free_space()),
    rest: (seconds) => guarded(() => x.rest(seconds)),
    rewrite: () => guarded(() => x.rewrite_file()),
    clear: () => x.clear_curve(),
    read() {
      guarded(() => x.read_file());
      const [bytes, rate, pages] = numbers();
      return { bytes, rate, pages };
    },
    cut(seed) {
      if (!guarded(() => x.cut(seed))) throw new Error(said());
      const [answered, lost, broken, seconds] = numbers();
      return { answered, lost, broken, seconds };
    },
    figures() {
      x.figures();
      const all = numbers();
      return Object.fromEntries(names.map((name, index) => [name, all[index]]));
    },
    curve: () => (x.curve(), numbers()),
    latencies: () => (x.latencies(), numbers()),
    cells: () => { const at = x.cells(); return new Uint8Array(x.memory.buffer, at, x.cells_length()); },
    fingerprint: () => BigInt.asUintN(64, x.fingerprint()).toString(16),
  };
})();
