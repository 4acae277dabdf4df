// The host cache under a running server: a restart after kill -9 finds it, flipped bits are repaired, a cache that is
// too small and a model folder that changes are survived. The same tokens every time.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, openSync, closeSync, readSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Serve, badLines, names, parseLine, refused, source } from './serve.mjs';

// One and a half of three models fit onto the device: every model's turn loads it from the cache.
const small = ['--device-memory', '7M', '--kv-memory', '2M', '--policy', 'quota-rr'];
const cacheDir = () => mkdtempSync('/dev/shm/briareus-test-');
const image = (cache, name) => join(cache, `${name}.weights`);

async function tokens(serve, model) {
  const response = await fetch(`${serve.url}/v1/completions`, { method: 'POST', body: JSON.stringify({
    model, prompt: 'Of light', max_tokens: 60, ignore_eos: true, temperature: 1, seed: 7, logprobs: 0 }) });
  assert.equal(response.status, 200);
  return (await response.json()).choices[0].logprobs.tokens;
}

async function all(serve) {
  const out = {};
  for (const name of names) out[name] = await tokens(serve, name);
  return out;
}

/** Flips a bit in the middle of every 64 KiB, so whatever unit lies there is hit. */
function flip(path) {
  const fd = openSync(path, 'r+');
  const byte = Buffer.alloc(1);
  for (let at = 64 << 10; at < statSync(path).size; at += 64 << 10) {
    readSync(fd, byte, 0, 1, at);
    byte[0] ^= 4;
    writeSync(fd, byte, 0, 1, at);
  }
  closeSync(fd);
}

const events = (serve, name, from = 0) => serve.lines.slice(from).map(parseLine).filter((e) => e.event === name);

async function served(flags, body) {
  const cache = cacheDir();
  const serve = await Serve.start({ flags: [...small, '--cache-dir', cache, '--keep-cache', ...flags] });
  try {
    await body(serve, cache);
    assert.equal(await serve.stop(), 0);
    assert.deepEqual(badLines(serve), []);
  } finally {
    serve.process.kill('SIGKILL');
    rmSync(cache, { recursive: true, force: true });
  }
}

test('kill -9: the cache is found, verified, and nothing is read from disk', () => served([], async (serve, cache) => {
  const before = await all(serve);
  const [first] = events(serve, 'cache_ready');
  assert.ok(Number(first.read) > 0);
  serve.process.kill('SIGKILL');
  await serve.exited;
  await serve.launch();
  const [again] = events(serve, 'cache_ready');
  assert.equal(Number(again.read), 0);
  assert.equal(Number(again.verified), Number(first.filled));
  assert.deepEqual(await all(serve), before);

  serve.process.kill('SIGKILL'); // and with flipped bits: verified at the start, read again
  await serve.exited;
  flip(image(cache, 'newton'));
  await serve.launch();
  const [damaged] = events(serve, 'cache_ready');
  assert.ok(Number(damaged.damaged) > 0 && Number(damaged.read) > 0);
  assert.ok(events(serve, 'weights_damaged').every((e) => e.why.includes('newton.weights')));
  assert.deepEqual(await all(serve), before);
}));

test('a bit that flips while the server runs: found when the weights are loaded next', () =>
  served(['--verify-after', '0s'], async (serve, cache) => {
    const before = await all(serve);
    const from = serve.lines.length;
    for (const name of names) flip(image(cache, name));
    assert.deepEqual(await all(serve), before);
    assert.deepEqual(await all(serve), before);
    assert.ok(events(serve, 'weights_repaired', from).length > 0);
  }));

test('a cache with no room for two of three models: they stream from disk', async () => {
  let before;
  await served([], async (serve) => { before = await all(serve); });
  for (const copies of ['keep', 'drop']) {
    await served(['--host-cache', '4M', '--host-copies', copies], async (serve) => {
      const [told] = events(serve, 'cache_full');
      assert.ok(Number(told.limit) === 4 << 20 && told.effect.includes('host-cache'));
      assert.ok(Number(events(serve, 'cache_ready')[0].bytes) <= 4 << 20);
      assert.deepEqual(await all(serve), before);
      assert.deepEqual(await all(serve), before);
    });
  }
});

test('a model folder that is written to while its weights stream: its requests fail, the others go on', async () => {
  const dir = mkdtempSync('/tmp/briareus-test-');
  const cache = cacheDir();
  const folder = (name) => join(dir, name);
  for (const name of names) cpSync(join(source, 'demo/models', name), folder(name), { recursive: true });
  const serve = await Serve.start({ models: names.map((n) => `${n}=${folder(n)}`),
    flags: [...small, '--cache-dir', cache, '--host-cache', '4M'] });
  try {
    const before = await all(serve);
    flip(join(folder(names[2]), 'model.safetensors'));
    const response = await fetch(`${serve.url}/v1/completions`, { method: 'POST',
      body: JSON.stringify({ model: names[2], prompt: 'Of light', max_tokens: 5 }) });
    if (response.status === 200) { // its units were all on the device
      await all(serve).catch(() => {});
    }
    await tokens(serve, names[0]);
    const failed = await fetch(`${serve.url}/v1/completions`, { method: 'POST',
      body: JSON.stringify({ model: names[2], prompt: 'Of light', max_tokens: 5 }) });
    assert.notEqual(failed.status, 200);
    assert.match(await failed.text(), /written to while it was served|not what they were/);
    assert.deepEqual(await tokens(serve, names[0]), before[names[0]]);
    assert.deepEqual(await tokens(serve, names[1]), before[names[1]]);
    assert.equal(await serve.stop(), 0);
  } finally {
    serve.process.kill('SIGKILL');
    rmSync(dir, { recursive: true, force: true });
    rmSync(cache, { recursive: true, force: true });
  }
});

test('sizes that the machine does not have', async () => {
  const model = ['--model', `m=${join(source, 'demo/models', names[0])}`];
  const large = await refused([...model, '--host-cache', '900T']);
  assert.notEqual(large.code, 0);
  assert.match(large.said, /host-cache: .* more than the .* of memory/);
  const mode = await refused([...model, '--host-copies', 'both']);
  assert.match(mode.said, /host-copies: 'both' is neither keep nor drop/);
});
