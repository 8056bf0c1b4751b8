// The page: its knobs, its loop, its lessons.
(() => {
  const $ = (id) => document.getElementById(id);
  // Drives that map by pages in RAM, at a 64th of their size.
  const PROFILES = ['generic-tlc', 'goodram-c50-120', 'intel-p4500', 'micron-5200', 'samsung-840-pro-512', 'samsung-pm883', 'samsung-pm981', 'toshiba-xg5'];
  const PACES = [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 2e6, Infinity];
  const NEW_SETUP = { profile: 'generic-tlc', start: 'steady', spare: null, policy: 'greedy', unit: 'superblock', plp: null, extra: [], array: false, erased: false, seed: 42 };
  const NEW_KNOBS = { request: 1, skew: .5, used: 1, flush: 0, depth: 32, sequential: false };
  let setup, knobs, running = false, pace = 1e6, owed = 0, cuts = 0, figures = {}, before = null;
  // What was measured in the last frames: units written and the clock.
  const meter = { units: 0, pictures: 0, since: performance.now(), rate: 0, fps: 0 };

  const time = (ns) => Number.isNaN(ns) ? '–' : ns < 1e6 ? `${(ns / 1e3).toFixed(ns < 1e4 ? 1 : 0)} µs` : ns < 1e9 ? `${(ns / 1e6).toFixed(ns < 1e7 ? 1 : 0)} ms` : `${(ns / 1e9).toFixed(1)} s`;
  const short = (n) => n >= 1e6 ? `${+(n / 1e6).toFixed(1)} M` : n >= 1e3 ? `${+(n / 1e3).toFixed(0)} k` : `${+n.toPrecision(2)}`;
  const size = (bytes) => bytes >= 1 << 20 ? `${bytes / (1 << 20)} MiB` : `${bytes / 1024} KiB`;
  const say = (text, isError) => { $('status').textContent = text; $('status').classList.toggle('error', !!isError); };
  const tried = (act) => {
    try { return act(); } catch (error) {
      running = false; shown();
      say(`That is not possible: ${error.message}.`.replace('..', '.'), true);
      return null;
    }
  };

  function create() {
    const changes = [...setup.extra, ['scale', '1/64']];
    if (setup.spare !== null) changes.push(['spare', `${setup.spare}%`]);
    changes.push(['collection.unit', setup.unit], ['collection.policy', setup.policy]);
    if (setup.policy === 'd-choices') changes.push(['collection.choices', '3']);
    if (setup.plp !== null) changes.push(['controller.power_loss_protection', setup.plp ? 'on' : 'off']);
    engine.create(setup.profile, changes, setup.start, setup.seed);
    engine.knobs(knobs);
    if (setup.erased) engine.trim();
    owed = 0; before = null; figures = engine.figures();
    if (setup.start === 'steady' && !figures.is_preconditioned) say('Theory does not know the steady state of this drive, so it is filled in order. Let it run.');
  }

  // What lessons and knobs do to the page.
  const app = {
    memory: {},
    make(newSetup, newKnobs, { running: run = true, pace: newPace } = {}) {
      tried(() => {
        setup = { ...NEW_SETUP, ...newSetup }; knobs = { ...NEW_KNOBS, ...newKnobs };
        app.memory = {};
        say('');
        create();
        if (newPace) pace = newPace;
        running = run;
      });
      shown();
    },
    run(newPace) { if (newPace) pace = newPace; running = true; shown(); },
    pause() { running = false; shown(); },
    setKnob(name, value) { knobs[name] = value; tried(() => engine.knobs(knobs)); shown(); },
    colour(mode) { picture.setMode(mode); document.querySelector(`#colouring input[value=${mode}]`).checked = true; },
    trim() {
      if (setup.array) return 'The array does not pass TRIM on: nothing reaches the drive.';
      tried(() => engine.trim());
      return knobs.used < 1 ? 'The drive knows now which units are free.' : 'No space is free: data fills the drive.';
    },
    rest(seconds) { tried(() => engine.rest(seconds)); return `The drive had ${seconds} s of its time to itself.`; },
    read: () => tried(() => engine.read()) || { bytes: NaN, rate: NaN, pages: NaN },
    rewrite: () => tried(() => engine.rewrite()),
    cut: () => tried(() => engine.cut(setup.seed + ++cuts)) || { answered: 0, lost: 0, broken: 0, seconds: NaN },
  };

  // Knobs: of the host they act at once, of the drive they make a new one.
  const steps = (list) => ({ max: list.length - 1, get: (value) => Math.max(0, list.indexOf(value)), put: (at) => list[at] });
  const percent = (value) => `${Math.round(value * 100)} %`;
  const HOST = [
    { key: 'request', name: 'Request size', ...steps([1, 2, 4, 8, 16, 32, 64, 128, 256]), show: (v) => size(v * (figures.unit_bytes || 4096)) },
    { key: 'skew', name: 'Skew', min: 50, max: 99, get: (v) => Math.round(v * 100), put: (v) => v / 100, show: (v) => v > .5 ? `${percent(v)} of writes to ${percent(1 - v)} of data` : 'all data alike' },
    { key: 'used', name: 'Data on the drive', min: 25, max: 100, get: (v) => Math.round(v * 100), put: (v) => v / 100, show: percent },
    { key: 'flush', name: 'Flush', ...steps([0, 256, 64, 16, 4, 1]), show: (v) => v === 0 ? 'never' : v === 1 ? 'after each write' : `after ${v} writes` },
    { key: 'depth', name: 'Requests in flight', ...steps([1, 2, 4, 8, 16, 32]), show: (v) => `${v}` },
    { key: 'sequential', name: 'Write in order', check: true },
  ];
  const DRIVE = [
    { key: 'profile', name: 'Profile', options: PROFILES },
    { key: 'start', name: 'Begins', options: [['steady', 'in its steady state'], ['filled', 'filled in order'], ['new', 'new']] },
    { key: 'spare', name: 'Spare area', min: 3, max: 50, get: (v) => v === null ? Math.round((figures.spare_of_physical || .07) * 100) : v, put: (v) => v, show: (v) => v === null ? `${((figures.spare_of_physical || 0) * 100).toFixed(1)} %` : `${v} %` },
    { key: 'policy', name: 'Garbage collection takes', options: [['greedy', 'the emptiest block (greedy)'], ['fifo', 'the oldest block (FIFO)'], ['random', 'any block (random)'], ['d-choices', 'the best of 3 (d-choices)'], ['cost-benefit', 'by cost and benefit']] },
    { key: 'unit', name: 'It collects', options: [['superblock', 'superblocks: a block of every die'], ['block', 'single blocks, die by die']] },
    { key: 'plp', name: 'Power-loss protection', check: true },
    { key: 'slc', name: 'SLC cache (25 GB at full size)', check: true },
    { key: 'seed', name: 'Seed', min: 1, max: 100, get: (v) => v, put: (v) => v, show: (v) => `${v}` },
  ];
  const valueOf = (knob) => knob.key === 'slc' ? setup.extra.length > 0 : knob.key in knobs ? knobs[knob.key] : setup[knob.key];
  function change(knob, value, isFinal) {
    if (knob.key in knobs) { app.setKnob(knob.key, value); return; }
    if (knob.key === 'slc') setup.extra = value ? SLC : [];
    else setup[knob.key] = value;
    if (isFinal) { say(''); tried(create); }
    shown();
  }
  const inputs = [];
  for (const [list, into] of [[HOST, 'host-knobs'], [DRIVE, 'drive-knobs']]) for (const knob of list) {
    const id = `k-${knob.key}`, box = document.createElement('div');
    box.className = 'knob';
    if (knob.options) {
      const options = knob.options.map((it) => Array.isArray(it) ? it : [it, it]);
      box.innerHTML = `<label for="${id}">${knob.name}</label><select id="${id}">${options.map(([value, text]) => `<option value="${value}">${text}</option>`).join('')}</select>`;
    } else if (knob.check) {
      box.innerHTML = `<label for="${id}">${knob.name}</label><input id="${id}" type="checkbox">`;
    } else {
      box.innerHTML = `<label for="${id}">${knob.name}</label><output id="${id}-out" for="${id}"></output><input id="${id}" type="range" min="${knob.min || 0}" max="${knob.max}" step="1">`;
    }
    $(into).append(box);
    const input = $(id);
    inputs.push([knob, input]);
    const value = () => knob.options ? input.value : knob.check ? input.checked : knob.put(+input.value);
    if (!knob.options && !knob.check) input.addEventListener('input', () => change(knob, value(), list === HOST));
    input.addEventListener('change', () => { if (list === DRIVE || knob.options || knob.check) change(knob, value(), true); });
  }

  // Brings buttons and knobs in line with the state.
  function shown() {
    $('toggle').textContent = running ? 'Pause' : 'Run';
    $('pace').value = PACES.indexOf(pace);
    const words = pace === Infinity ? 'as fast as it goes' : `${short(pace)} units a second`;
    $('pace-out').textContent = words; $('pace').setAttribute('aria-valuetext', words);
    for (const [knob, input] of inputs) {
      const value = valueOf(knob);
      if (knob.options) input.value = value;
      else if (knob.check) input.checked = knob.key === 'plp' && value === null ? false : !!value;
      else {
        input.value = knob.get(value);
        $(`${input.id}-out`).textContent = knob.show(value);
        input.setAttribute('aria-valuetext', knob.show(value));
      }
    }
  }

  const bytes = (units) => units * figures.unit_bytes;
  function texts() {
    const f = figures, set = (id, text) => { const at = $(id); if (at.textContent !== text) at.textContent = text; };
    const ratio = (value, digits = 2) => Number.isNaN(value) ? '–' : value.toFixed(digits);
    set('f-wa', ratio(f.write_amplification)); set('f-form', Number.isNaN(f.closed_form) ? 'none' : ratio(f.closed_form));
    set('f-speed', Number.isNaN(f.units_per_second) ? '–' : `${(bytes(f.units_per_second) / 1e6).toFixed(0)} MB/s`);
    set('f-latency', `${time(f.write_p50)} / ${time(f.write_p99)}`); set('f-flush', `${time(f.flush_p50)} / ${time(f.flush_p99)}`);
    $('box-flush').hidden = Number.isNaN(f.flush_p50);
    set('f-free', `${f.free_blocks} of ${f.blocks}`); set('f-written', `${ratio(f.host_units / f.logical_units)} × drive`);
    set('cells-text', `${f.blocks} blocks of ${(bytes(f.units_per_block) / (1 << 20)).toFixed(1)} MiB${f.groups > 1 ? `, in ${f.groups} bands: one for each die` : ', each across all dies'}. Erases: ${f.erases_min} to ${f.erases_max}, ${f.erases_mean.toFixed(1)} on average.${f.slc_blocks ? ` ${f.slc_blocks} blocks in SLC mode.` : ''}`);
    set('rate', running ? `${short(meter.rate)} units/s, ${meter.fps.toFixed(0)} pictures/s` : 'paused');
  }

  // Of what the flash programs, the parts of the last moments.
  const PARTS = [['host', 'host', 'for the host'], ['copied_units', 'copy', 'copied by garbage collection'], ['folded_units', 'fold', 'folded out of the SLC cache'], ['padding_units', 'pad', 'padding'], ['metadata_units', 'meta', 'metadata']];
  function programs() {
    if (!before || before.host_units > figures.host_units) { before = figures; return; }
    const host = figures.host_units - before.host_units;
    if (host < 500) return;
    const parts = PARTS.map(([key, colour, name]) => [key === 'host' ? host : figures[key] - before[key], colour, name]);
    const all = parts.reduce((sum, [units]) => sum + units, 0);
    $('programs').innerHTML = parts.map(([units, colour]) => `<span style="width:${(100 * units / all).toFixed(1)}%;background:${picture.colour(colour)}"></span>`).join('');
    $('programs-text').innerHTML = parts.filter(([units]) => units / all > .0005).map(([units, colour, name]) => picture.swatch(picture.colour(colour), `${(100 * units / all).toFixed(units / all < .01 ? 1 : 0)} % ${name}`)).join(' ');
    before = figures;
  }

  function curves() {
    const all = engine.curve(), wa = [], speed = [], free = [], drive = figures.logical_units;
    for (let at = 0; at < all.length; at += 4) {
      const x = all[at] / drive;
      wa.push([x, all[at + 1]]); speed.push([x, bytes(all[at + 3]) / 1e6]); free.push([x, all[at + 2]]);
    }
    const form = Number.isNaN(figures.closed_form) ? 0 : figures.closed_form;
    picture.chart('c-wa', [{ points: wa, colour: picture.colour('copy') }], { mark: form, format: (v) => v.toFixed(v < 1 ? 1 : v % 1 ? 1 : 0), bottom: 1 });
    picture.chart('c-speed', [{ points: speed, colour: picture.colour('host') }], { format: (v) => v.toFixed(0) });
    picture.chart('c-free', [{ points: free, colour: picture.colour('fold') }], { format: (v) => v.toFixed(v % 1 ? 1 : 0), bottom: 4 });
    picture.latencies(engine.latencies(), time);
    const last = (list, digits) => list.length ? list[list.length - 1][1].toFixed(digits) : 'nothing yet';
    $('c-wa-text').textContent = `Programmed units for each unit that the host writes: ${last(wa, 2)}.${form ? ` Dashed: closed form, ${form.toFixed(2)}.` : ''}`;
    $('c-speed-text').textContent = `MB/s of the drive’s time: ${last(speed, 0)}.`;
    $('c-free-text').textContent = `Blocks erased and ready: ${last(free, 0)}.`;
    $('c-lat-text').innerHTML = `Count (logarithmic) by latency. ${picture.swatch(picture.colour('host'), 'writes')}${Number.isNaN(figures.flush_p50) ? '' : ` ${picture.swatch(picture.colour('copy'), 'flushes')}`} 99.9 % of writes: ${time(figures.write_p999)} or less.`;
  }

  let last = performance.now(), pictures = 0;
  function frame(now) {
    const passed = Math.min(100, now - last);
    last = now;
    if (running) {
      const start = performance.now(), budget = 24;
      owed = pace === Infinity ? Infinity : Math.min(owed + pace * passed / 1e3, pace * .1);
      tried(() => {
        while (owed >= 1 && performance.now() - start < budget) {
          const units = Math.min(owed, 4096);
          engine.advance(units);
          owed -= Math.floor(units); meter.units += Math.floor(units);
        }
      });
    }
    if (running || pictures % 10 === 0) {
      figures = engine.figures();
      picture.cells(engine.cells(), figures.groups);
      meter.pictures++;
    }
    if (pictures % 6 === 0) { texts(); curves(); }
    if (pictures % 15 === 0) programs();
    pictures++;
    if (now - meter.since > 1000) {
      const seconds = (now - meter.since) / 1e3;
      Object.assign(meter, { rate: meter.units / seconds, fps: meter.pictures / seconds, units: 0, pictures: 0, since: now });
    }
    requestAnimationFrame(frame);
  }

  function openLesson(number, focus) {
    const lesson = LESSONS[number];
    document.querySelectorAll('#lesson-list button').forEach((button, at) => button.setAttribute('aria-current', String(at === number)));
    $('lesson').innerHTML = `<h3 tabindex="-1">${number + 1}. ${lesson.title}</h3><p>${lesson.intro}</p><ol>${lesson.steps.map((step, at) => `<li><p>${step.text}</p><button type="button" data-step="${at}">${step.button}</button><p class="said" role="status"></p></li>`).join('')}</ol><div class="full"><p>At full size:</p><pre tabindex="0">${lesson.full}</pre><p class="after">${lesson.means}</p></div>`;
    const items = [...document.querySelectorAll('#lesson li')], mark = (current) => items.forEach((item, at) => {
      item.classList.toggle('current', at === current);
      item.classList.toggle('done', item.dataset.done === '1');
      item.querySelector('button').classList.toggle('next', at === current);
    });
    items.forEach((item, at) => item.querySelector('button').addEventListener('click', () => {
      const said = tried(() => lesson.steps[at].act(app));
      if (said) { item.querySelector('.said').textContent = said; item.dataset.done = '1'; mark(at + 1); }
    }));
    mark(0);
    if (focus) $('lesson').querySelector('h3').focus();
  }

  // Assembly of the page.
  $('lesson-list').innerHTML = LESSONS.map(({ title }, at) => `<li><button type="button">${at + 1}. ${title}</button></li>`).join('');
  document.querySelectorAll('#lesson-list button').forEach((button, at) => button.addEventListener('click', () => openLesson(at, true)));
  $('colouring').insertAdjacentHTML('beforeend', Object.entries(picture.MODES).map(([key, { name }]) => `<label><input type="radio" name="colouring" value="${key}"${key === 'valid' ? ' checked' : ''}> ${name}</label>`).join(''));
  $('colouring').addEventListener('change', (event) => picture.setMode(event.target.value));
  $('toggle').addEventListener('click', () => (running ? app.pause() : app.run()));
  $('pace').addEventListener('input', () => { pace = PACES[+$('pace').value]; owed = 0; shown(); });
  $('trim').addEventListener('click', () => say(app.trim()));
  $('rest').addEventListener('click', () => say(app.rest(60)));
  $('read').addEventListener('click', () => { const { bytes, rate, pages } = app.read(); if (bytes) say(`Read ${(bytes / 1e6).toFixed(0)} MB in order at ${(rate / 1e6).toFixed(0)} MB/s, ${pages.toFixed(1)} flash pages for each 128 KiB.`); });
  $('cut').addEventListener('click', () => { const { answered, lost, broken } = app.cut(); if (answered) say(`A small drive of this kind lost power: of ${answered} units that it had answered ${lost} are gone, ${broken} of those after a flush.`); });
  $('remake').addEventListener('click', () => { say(''); tried(create); shown(); });
  const theme = (name) => {
    document.documentElement.dataset.theme = name;
    $('theme').textContent = name === 'dark' ? 'Light theme' : 'Dark theme';
    picture.takeColours();
  };
  $('theme').addEventListener('click', () => theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  theme(matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark');
  app.make({}, {}, { pace: 1e6 });
  openLesson(0, false);
  window.playground = { meter, engine, app, get figures() { return figures; } };
  requestAnimationFrame(frame);
})();
