// Models while they are served: loaded, unloaded down to the host cache, pinned; and what is told of wrong orders.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, source } from './serve.mjs';

const cache = mkdtempSync('/dev/shm/briareus-test-');
let serve;
before(async () => {
  serve = await Serve.start({ flags: ['--devices', '2', '--cache-dir', cache] });
  for (const device of ['0', '1']) await serve.waitFor((e) => e.event === 'device_up' && e.device === device);
});
after(async () => {
  try {
    assert.equal(await serve.stop(), 0);
    assert.deepEqual(badLines(serve), []);
  } finally {
    rmSync(cache, { recursive: true, force: true });
  }
});

const post = async (path, body) => {
  const response = await fetch(`${serve.url}${path}`, {
    method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) });
  return { status: response.status, body: await response.json(), retry: response.headers.get('retry-after') };
};
const order = (what, body) => post(`/models/${what}`, body);
const state = async (id) => (await (await fetch(`${serve.url}/models`)).json()).data.find((m) => m.id === id);
const blocks = (name) => statSync(join(cache, `${name}.weights`)).blocks * 512;
const ask = async (model) => (await post('/v1/completions', {
  model, prompt: 'Of light', max_tokens: 40, ignore_eos: true, temperature: 1, seed: 7 })).body.choices[0].text;

/** Streams that have begun and go on for some thousand tokens unless they are given up. */
async function stream(model) {
  const abort = new AbortController();
  const response = await fetch(`${serve.url}/v1/completions`, { method: 'POST', signal: abort.signal,
    body: JSON.stringify({ model, prompt: 'A', max_tokens: 500, n: 24, ignore_eos: true, stream: true, temperature: 0 }) });
  const reader = response.body.getReader();
  await reader.read();
  return { abort, rest: async () => { while (!(await reader.read()).done); } };
}

test('load: the answer comes when the weights are there', async () => {
  const { status, body } = await order('load', { model: 'newton' });
  assert.equal(status, 200);
  assert.equal(body.status, 'ready');
  const bytes = body.devices.map((d) => d.resident_bytes);
  assert.ok(bytes.includes(body.devices[0].weight_bytes), `${bytes}`);
  assert.equal((await state('newton')).status, 'ready');
});

test('unload: free on every device, still in the host cache', async () => {
  const text = await ask('newton'), host = blocks('newton');
  assert.equal((await order('unload', { model: 'newton' })).status, 200);
  assert.equal((await order('load', { model: 'newton' })).status, 200); // on one device now
  const { status, body } = await order('unload', { model: 'newton' });
  assert.equal(status, 200);
  assert.equal(body.freed_device_bytes, body.devices[0].weight_bytes);
  assert.deepEqual(body.devices.map((d) => d.resident_bytes), [0, 0]);
  assert.equal(body.freed_host_bytes, 0);
  assert.equal(body.status, 'sleeping');
  assert.equal(blocks('newton'), host);
  assert.equal(await ask('newton'), text);
});

test('unload with host: the memory of the cache is free too, and the next request reads the folder', async () => {
  const text = await ask('hacker'), before = blocks('hacker');
  const { status, body } = await order('unload', { model: 'hacker', host: true });
  assert.equal(status, 200, JSON.stringify(body));
  const free = before - blocks('hacker');
  assert.equal(body.freed_host_bytes, free);
  assert.ok(free > .95 * body.devices[0].weight_bytes && blocks('hacker') < 64 << 10, `${free} of ${before}`);
  assert.equal(body.status, 'unloaded');
  assert.equal((await order('unload', { model: 'hacker', host: true })).body.freed_device_bytes, 0);
  assert.equal(await ask('hacker'), text);
  assert.equal((await order('load', { model: 'hacker' })).body.status, 'ready');
  assert.equal(blocks('hacker'), before); // there was room: it is cached again
});

test('a model with sequences: 409, or with wait it is closed until they have ended', async () => {
  assert.equal((await order('unload', { model: 'prophet' })).status, 200);
  const running = await stream('prophet'); // on one device
  const busy = await order('unload', { model: 'prophet' });
  assert.equal(busy.status, 409);
  assert.match(busy.body.error.message, /'prophet': \d+ of its sequences are unfinished/);
  const waits = order('unload', { model: 'prophet', wait: true });
  while (!(await state('prophet')).closed); // it has been heard
  const refused = await post('/v1/completions', { model: 'prophet', prompt: 'A', max_tokens: 2 });
  assert.equal(refused.status, 503);
  assert.ok(Number(refused.retry) >= 1);
  await running.rest();
  const { status, body } = await waits;
  assert.equal(status, 200);
  assert.equal(body.freed_device_bytes, body.devices[0].weight_bytes);
  assert.equal(body.closed, false);
  assert.ok(await ask('prophet'));
});

test('whoever left is no longer in the way', async () => {
  const running = await stream('prophet');
  running.abort.abort();
  let status = 409;
  while (status === 409) ({ status } = await order('unload', { model: 'prophet' })); // until the scheduler has heard
  assert.equal(status, 200);
});

test('pinned: it is not unloaded before it is unpinned', async () => {
  assert.equal((await order('pin', { model: 'newton' })).body.pinned, true);
  await order('load', { model: 'newton' });
  const refused = await order('unload', { model: 'newton' });
  assert.equal(refused.status, 409);
  assert.match(refused.body.error.message, /pinned: unpin it first/);
  assert.equal((await order('unpin', { model: 'newton' })).body.pinned, false);
  assert.equal((await order('unload', { model: 'newton' })).status, 200);
});

test('wrong orders are told what is wrong', async () => {
  const cases = [
    ['load', { model: 'newtom' }, 404, /'newtom' does not exist: did you mean 'newton'\?/],
    ['unload', { model: 'qqqqqqqqqqqq' }, 404, /does not exist\.$/],
    ['load', {}, 400, /'model' must be a string/],
    ['load', { model: 7 }, 400, /'model' must be a string/],
    ['load', [], 400, /must be a JSON object/],
    ['unload', { model: 'newton', host: 1 }, 400, /'host' must be true or false/],
    ['unload', { model: 'newton', hots: true }, 400, /Unknown member 'hots'/],
    ['load', '{', 400, /not JSON.*line 1/],
    ['explode', { model: 'newton' }, 404, /There are load, unload, pin and unpin/],
  ];
  for (const [what, body, status, message] of cases) {
    const answer = await order(what, body);
    assert.equal(answer.status, status, `${what} ${JSON.stringify(body)}`);
    assert.match(answer.body.error.message, message);
  }
  assert.equal((await fetch(`${serve.url}/models/load`)).status, 405);
});

test('models that are loaded at once are spread over the devices', async () => {
  const file = join(source, 'docs/examples/models-72b.yaml'); // two of them fit onto a device
  const sim = await Serve.start({
    models: [], flags: ['--device', 'sim:h20', '--devices', '3', '--speed', '20', '--models-from', file] });
  try {
    for (const device of ['0', '1', '2']) await sim.waitFor((e) => e.event === 'device_up' && e.device === device);
    const answers = await Promise.all([0, 1, 2, 3, 4, 5].map((i) => fetch(`${sim.url}/models/load`, {
      method: 'POST', body: JSON.stringify({ model: `qwen72b-${i}` }) })));
    assert.deepEqual(answers.map((a) => a.status), [200, 200, 200, 200, 200, 200]);
    const { data } = await (await fetch(`${sim.url}/models`)).json();
    const used = new Map();
    for (const m of data) for (const d of m.devices) {
      if (d.resident_bytes > 0) used.set(d.device, (used.get(d.device) ?? 0) + 1);
    }
    assert.deepEqual([...used.values()], [2, 2, 2]);
  } finally {
    assert.equal(await sim.stop(), 0);
  }
});

test('host copies are dropped whichever model comes first', async () => {
  const one = await Serve.start();
  try {
    for (const model of ['newton', 'prophet', 'hacker']) {
      const answer = await fetch(`${one.url}/models/unload`, {
        method: 'POST', body: JSON.stringify({ model, host: true }) });
      assert.equal(answer.status, 200, await answer.text());
    }
  } finally {
    assert.equal(await one.stop(), 0);
  }
});
