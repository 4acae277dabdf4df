// `serve --trace`: what the file says follows from what was asked for, and it is JSON whoever is killed.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Serve, badLines, refused, source } from './serve.mjs';

const models = join(source, 'tests/integration/sim-models.yaml');
const dir = mkdtempSync(join(tmpdir(), 'briareus-trace-'));
after(() => rmSync(dir, { recursive: true }));
const path = join(dir, 'trace.json');
const flags = ['--device', 'sim:h20', '--speed', '20', '--models-from', models, '--trace', path];

const ask = async (serve, model, max_tokens, stream = false) => fetch(`${serve.url}/v1/completions`, {
  method: 'POST', body: JSON.stringify({ model, prompt: 'a'.repeat(100), max_tokens, stream }) });
const events = () => JSON.parse(readFileSync(path, 'utf8')).traceEvents;

test('steps, loads and requests are all there', async () => {
  writeFileSync(path, ''); // an older one is begun anew
  const serve = await Serve.start({ models: [], flags });
  for (const model of ['qwen72b-0', 'qwen72b-1', 'qwen72b-2']) {
    assert.equal((await ask(serve, model, 20)).status, 200);
    events(); // at any moment
  }
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
  const all = events(), slices = all.filter((e) => e.ph === 'X');
  for (const model of ['qwen72b-0', 'qwen72b-1', 'qwen72b-2']) {
    // One at a time: a step for the prompt, which gives the first token, and one for each of the other nineteen.
    const steps = slices.filter((e) => e.tid === 0 && e.name === model);
    assert.equal(steps.filter((e) => e.cat === 'prefill').length, 1);
    assert.equal(steps.filter((e) => e.cat === 'decode').length, 19);
    assert.equal(steps.reduce((n, e) => n + e.args['prompt rows'], 0), 100);
    assert.equal(steps.filter((e) => e.args.switched === 'yes').length, model === 'qwen72b-0' ? 0 : 1);
    // 72.7e9 weights of four bits and their scales: 41 GB (docs/measured/costs.md).
    const loads = slices.filter((e) => e.name === `load ${model}`).reduce((mb, e) => mb + e.args.MB, 0);
    if (model === 'qwen72b-2') assert.ok(loads > 36e3 && loads < 46e3, `${loads} MB`);
    // A row of its own, from acceptance to end.
    const request = all.filter((e) => e.pid === 1000 && e.name === `${model}, 100 in, at most 20 out`);
    assert.deepEqual(request.map((e) => e.ph), ['b', 'e']);
    const row = all.filter((e) => e.pid === 1000 && e.id === request[0].id).map((e) => e.name);
    assert.deepEqual(row.slice(1, -1), ['waits for its first token', row[2], 'waits for its first token', 'streams',
      'streams', 'length']);
    assert.match(row[2], /^to device 0 of /);
    // Its steps lie within it.
    assert.ok(steps[0].ts >= request[0].ts && steps.at(-1).ts <= request[1].ts);
  }
  // Slices of a row follow each other.
  for (const tid of [0, 1, 2, 3, 4]) {
    const row = slices.filter((e) => e.tid === tid);
    for (let i = 1; i < row.length; i++) assert.ok(row[i].ts >= row[i - 1].ts + row[i - 1].dur - 1, `row ${tid}, ${i}`);
  }
});

test('serve is killed in the middle of a stream', async () => {
  const serve = await Serve.start({ models: [], flags });
  const reader = (await ask(serve, 'qwen72b-0', 2000, true)).body.getReader();
  for (let i = 0; i < 20; i++) await reader.read();
  serve.process.kill('SIGKILL');
  await serve.exited;
  reader.cancel().catch(() => {});
  assert.ok(events().some((e) => e.name === 'begin'));
  assert.ok(events().some((e) => e.args?.name === 'requests'));
  rmSync(serve.dir, { recursive: true, force: true });
});

test('what is no trace is not overwritten', async () => {
  writeFileSync(path, 'my notes');
  const { code, said } = await refused(['--data-dir', dir, ...flags]);
  assert.equal(code, 2);
  assert.match(said, /no trace/);
  assert.equal(readFileSync(path, 'utf8'), 'my notes');
});
