// Another configuration while the server runs: models come and go, what runs goes on; a wrong file changes nothing.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, source } from './serve.mjs';

const cache = mkdtempSync('/dev/shm/briareus-test-'), file = join(cache, '..', `briareus-test-${process.pid}.yaml`);
const write = (names, more = '') => writeFileSync(file,
  `${more}model:\n${names.map((n) => `  ${n}: ${join(source, 'demo/models', n)}\n`).join('')}`);
const servePid = () => serve.process.pid;
let serve;
before(async () => {
  write(['prophet', 'newton']);
  serve = await Serve.start({ models: [], flags: ['--config', file, '--devices', '2', '--cache-dir', cache] });
  for (const device of ['0', '1']) await serve.waitFor((e) => e.event === 'device_up' && e.device === device);
});
after(async () => {
  rmSync(file, { force: true });
  try {
    assert.equal(await serve.stop(), 0);
    assert.deepEqual(badLines(serve), []);
  } finally {
    rmSync(cache, { recursive: true, force: true });
  }
});

const ids = async () => (await (await fetch(`${serve.url}/v1/models`)).json()).data.map((m) => m.id).sort();
const state = async (id) => (await (await fetch(`${serve.url}/models`)).json()).data.find((m) => m.id === id);
const ask = async (model, max_tokens = 40) => {
  const response = await fetch(`${serve.url}/v1/completions`, { method: 'POST', body: JSON.stringify({
    model, prompt: 'Of light', max_tokens, ignore_eos: true, temperature: 1, seed: 7 }) });
  const body = await response.json();
  return { status: response.status, text: body.choices?.[0].text, message: body.error?.message };
};
/** Rewrites the file, sends SIGHUP, and waits until the scheduler has taken it. */
async function reload(names, event = 'models_reloaded') {
  const from = serve.lines.length;
  write(names);
  process.kill(servePid(), 'SIGHUP');
  return serve.waitFor((e) => e.event === event, { from });
}
/** All devices have it. */
const added = (name, from) => serve.waitFor(
  (e) => e.event === 'model_ordered' && e.what === 'add' && e.model === name, { from });

test('a model comes: it is served by all devices, and what runs is not disturbed', async () => {
  const alone = await ask('prophet', 400);
  const running = ask('prophet', 400), from = serve.lines.length;
  await reload(['prophet', 'newton', 'hacker']);
  assert.deepEqual(await ids(), ['hacker', 'newton', 'prophet']);
  await added('hacker', from);
  const { status, text } = await ask('hacker');
  assert.equal(status, 200);
  assert.equal(text.length > 0, true);
  assert.equal((await ask('hacker')).text, text);
  assert.deepEqual(await running, alone);
  assert.equal((await state('hacker')).devices.length, 2);
  assert.ok(existsSync(join(cache, 'hacker.weights')));
});

test('a model goes: its requests end, new ones are refused, then it is gone everywhere', async () => {
  const alone = await ask('prophet', 400);
  const running = ask('prophet', 400);
  while ((await state('prophet')).unfinished === 0); // it is there
  const from = serve.lines.length;
  await reload(['newton', 'hacker']);
  assert.deepEqual(await ids(), ['hacker', 'newton']);
  const refused = await ask('prophet');
  assert.equal(refused.status, 404);
  assert.match(refused.message, /prophet/);
  assert.deepEqual(await running, alone);
  await serve.waitFor((e) => e.event === 'model_ordered' && e.what === 'remove', { from });
  assert.equal(await state('prophet'), undefined);
  assert.ok(!existsSync(join(cache, 'prophet.weights')));
  assert.equal((await ask('newton')).status, 200);
});

test('and comes again; a device process that dies learns of it', async () => {
  const text = (await ask('newton')).text, from = serve.lines.length;
  await reload(['newton', 'hacker', 'prophet']);
  await added('prophet', from);
  const before = await ask('prophet'), hacker = await ask('hacker');
  assert.equal(before.status, 200);
  const victim = serve.pid('device'), then = serve.lines.length;
  process.kill(victim, 'SIGKILL');
  await added('hacker', then);
  assert.deepEqual([await ask('prophet'), await ask('hacker')], [before, hacker]);
  assert.equal((await ask('newton')).text, text);
});

test('a wrong file changes nothing, and the log says what is wrong', async () => {
  const from = serve.lines.length;
  write(['newton'], 'modle: x\n');
  process.kill(servePid(), 'SIGHUP');
  const { why } = await serve.waitFor((e) => e.event === 'reload_failed', { from });
  assert.match(why, /modle/);
  assert.deepEqual(await ids(), ['hacker', 'newton', 'prophet']);
  assert.equal((await ask('hacker')).status, 200);
});
