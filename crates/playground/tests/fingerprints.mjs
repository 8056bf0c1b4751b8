// Prints write amplification and the fingerprint of each scenario, from the WebAssembly of a page.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const [page, scenarios] = process.argv.slice(2);
const html = fs.readFileSync(page, 'utf8');
// The page's own wrapper, up to the part that needs a document.
const script = html.slice(html.indexOf('const WASM'), html.indexOf('// The inside of a drive as a picture'));
const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'playground-'));
fs.writeFileSync(path.join(directory, 'engine.mjs'), `${script}\nexport { engine };\n`);
const { engine } = await import(path.join(directory, 'engine.mjs'));
fs.rmSync(directory, { recursive: true });
const bits = (number) => {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  return view.getBigUint64(0).toString(16).padStart(16, '0');
};
for (const line of fs.readFileSync(scenarios, 'utf8').split('\n').filter((it) => it && !it.startsWith('#'))) {
  const [drive, host, units] = line.split(';');
  const [profile, start, seed, changes] = drive.split(' ');
  const [request, skew, used, flush, depth, inOrder] = host.split(' ').map(Number);
  engine.create(profile, changes.split(',').map((it) => it.split('=')), ['new', 'filled', 'steady'][start], +seed);
  engine.knobs({ request, skew, used, flush, depth, sequential: inOrder });
  // As the page does it: many small calls.
  for (let left = +units; left > 0; left -= 4096) engine.advance(Math.min(left, 4096));
  console.log(`${profile} ${bits(engine.figures().write_amplification)} ${engine.fingerprint().padStart(16, '0')}`);
}
