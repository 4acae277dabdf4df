// kill -9 in mid-stream: of a device process, of Redis, of the scheduler, of serve itself.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, names, source } from './serve.mjs';

let serve;
before(async () => { serve = await Serve.start({ flags: ['--device-link', '64M'] }); });
after(async () => {
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
});

const request = (i) => ({
  model: names[i % 3], prompt: `Of the nature of ${'abcdef'[i]}`, max_tokens: 300, ignore_eos: true,
  temperature: i % 2 ? 1 : 0, seed: i, logprobs: 0, stream: true });

const redis = (...args) => execFileSync('redis-cli', ['-s', join(serve.dir, 'redis.sock'), ...args],
  { encoding: 'utf8' }).trim();

/** Streams one completion; onTokens(total) is called as they come. Resolves with tokens and request id (none: the
 * connection broke before it was accepted). */
async function stream(body, onTokens = () => {}) {
  const response = await fetch(`${serve.url}/v1/completions`, { method: 'POST', body: JSON.stringify(body) })
    .catch(() => null);
  if (!response) return { id: null, tokens: [], done: false };
  const id = response.headers.get('x-request-id');
  const tokens = [];
  let rest = '', done = false;
  try {
    for await (const bytes of response.body.pipeThrough(new TextDecoderStream())) {
      rest += bytes;
      for (let cut; (cut = rest.indexOf('\n\n')) >= 0; rest = rest.slice(cut + 2)) {
        const data = rest.slice(0, cut).replace(/^data: /, '');
        if (data === '[DONE]') { done = true; continue; }
        tokens.push(...(JSON.parse(data).choices?.[0]?.logprobs?.tokens ?? []));
        onTokens(tokens.length);
      }
    }
  } catch { /* the connection broke: what came so far counts */ }
  return { id, tokens, done };
}

test('a killed device process: every stream goes on as it would have', async () => {
  const alone = [];
  for (let i = 0; i < 6; i++) alone.push((await stream(request(i))).tokens);
  const from = serve.lines.length;
  const victim = serve.pid('device');
  let killed = false;
  const streams = [0, 1, 2, 3, 4, 5].map((i) => stream(request(i), (n) => {
    if (n >= 20 && !killed) { killed = true; process.kill(victim, 'SIGKILL'); }
  }));
  const results = await Promise.all(streams);
  assert.ok(killed);
  await serve.waitFor((e) => e.event === 'device_started' && Number(e.pid) !== victim, { from });
  results.forEach((r, i) => {
    assert.ok(r.done, `stream ${i} was cut`);
    assert.equal(r.tokens.length, 300);
    assert.deepEqual(r.tokens, alone[i]);
  });
});

test('long answers without log probabilities come through two deaths', async () => {
  const body = { model: 'prophet', prompt: 'And', max_tokens: 480, ignore_eos: true, temperature: 0 };
  const ask = () => fetch(`${serve.url}/v1/completions`, { method: 'POST', body: JSON.stringify(body) })
    .then((r) => r.json());
  const alone = await ask();
  for (const name of ['device', 'device']) {
    const victim = serve.pid(name), from = serve.lines.length;
    const watched = fetch(`${serve.url}/v1/completions`, {
      method: 'POST', body: JSON.stringify({ ...body, stream: true }) });
    const answers = [ask(), ask(), ask()];
    let killed = false, text = '', rest = '';
    for await (const bytes of (await watched).body.pipeThrough(new TextDecoderStream())) {
      rest += bytes;
      for (let cut; (cut = rest.indexOf('\n\n')) >= 0; rest = rest.slice(cut + 2)) {
        const data = rest.slice(0, cut).replace(/^data: /, '');
        if (data !== '[DONE]') text += JSON.parse(data).choices[0]?.text ?? '';
      }
      if (!killed && text.length >= alone.choices[0].text.length / 2) { killed = true; process.kill(victim, 'SIGKILL'); }
    }
    assert.ok(killed);
    await serve.waitFor((e) => e.event === 'device_up', { from });
    assert.equal(text, alone.choices[0].text);
    for (const a of await Promise.all(answers)) assert.deepEqual(a.choices[0].text, alone.choices[0].text);
  }
  assert.equal(serve.lines.filter((l) => /no Frame/.test(l)).length, 0);
});

test('a killed Redis: it is started again, and the streams go on', async () => {
  const from = serve.lines.length;
  const victim = serve.pid('redis');
  let killed = false;
  const results = await Promise.all([0, 1, 2, 3, 4, 5].map((i) => stream(request(i), (n) => {
    if (n >= 20 && !killed) { killed = true; process.kill(victim, 'SIGKILL'); }
  })));
  await serve.waitFor((e) => e.event === 'child_started' && e.name === 'redis', { from });
  results.forEach((r, i) => {
    assert.ok(r.done, `stream ${i} was cut`);
    assert.equal(r.tokens.length, 300);
  });
});

test('a Redis that has lost everything: the scheduler puts it in again, and the streams go on', async () => {
  const from = serve.lines.length;
  let lost = false;
  const results = await Promise.all([0, 1, 2, 3, 4, 5].map((i) => stream(request(i), (n) => {
    if (n >= 20 && !lost) { lost = true; redis('flushall'); }
  })));
  await serve.waitFor((e) => e.event === 'seq_restored', { from });
  results.forEach((r, i) => {
    assert.ok(r.done, `stream ${i} was cut`);
    assert.equal(r.tokens.length, 300);
  });
  assert.equal(redis('zcard', 'briareus:unfinished'), '0');
});

test('a killed scheduler: no accepted request is missing in Redis, and all of them end', async () => {
  const from = serve.lines.length;
  const victim = serve.pid('scheduler');
  let killed = false;
  const streams = [0, 1, 2, 3, 4, 5].map((i) => stream(request(i), (n) => {
    if (n >= 10 && !killed) { killed = true; process.kill(victim, 'SIGKILL'); }
  }));
  const accepted = (await Promise.all(streams)).filter((r) => r.id);
  assert.ok(killed && accepted.length > 0);
  const recovered = await serve.waitFor((e) => e.event === 'recovered', { from });
  assert.ok(Number(recovered.unfinished) > 0);
  const ends = new Map();
  for (const r of accepted) {
    const end = await serve.waitFor((e) => e.event === 'seq_end' && e.req === r.id, { from });
    ends.set(r.id, end);
    assert.equal(end.end, 'length');
    assert.equal(end.tokens, '300');
  }
  for (const [id, end] of ends) {
    assert.equal(redis('HGET', `briareus:s:${end.seq}`, 'n'), '300', `tokens stored of ${id}`);
  }
});

const openStreams = async (serve, n, extra = {}) => {
  const all = Array.from({ length: n }, () => fetch(`${serve.url}/v1/completions`, {
    method: 'POST', body: JSON.stringify({ model: 'newton', prompt: 'a', max_tokens: 490, ignore_eos: true, stream: true, ...extra }) }));
  const readers = (await Promise.all(all)).map((r) => r.body.getReader());
  await Promise.all(readers.map((r) => r.read())); // every stream has begun
  return readers;
};
const rest = async (reader) => {
  let text = '';
  for (let part; !(part = await reader.read()).done;) text += Buffer.from(part.value).toString();
  return text;
};

test('SIGTERM drains: what is under way ends well, new work hears 503 and when to come back', async () => {
  const first = await Serve.start({ flags: ['--shutdown-timeout', '60s'] });
  const readers = await openStreams(first, 6);
  first.process.kill('SIGTERM');
  assert.equal((await first.waitFor((e) => e.event === 'draining')).open, '6');
  const late = await fetch(`${first.url}/v1/completions`, {
    method: 'POST', body: JSON.stringify({ model: 'newton', prompt: 'a' }) });
  assert.equal(late.status, 503);
  assert.equal(late.headers.get('retry-after'), '60');
  assert.equal((await fetch(`${first.url}/health/ready`)).status, 503);
  for (const text of await Promise.all(readers.map(rest))) {
    assert.match(text, /"finish_reason":"length"/);
    assert.match(text, /data: \[DONE\]\n\n$/);
  }
  assert.equal((await first.exited).code, 0);
  await first.launch();
  assert.equal((await first.waitFor((e) => e.event === 'recovered')).unfinished, '0');
  assert.equal(await first.stop(), 0);
});

for (const [how, flags, signals] of [
  ['at the end of its time', ['--shutdown-timeout', '1ms'], 1], ['at the second SIGTERM', ['--shutdown-timeout', '600s'], 2]]) {
  test(`what is unfinished ${how} stays in Redis and is finished by the next start`, async () => {
    const slow = ['--device', 'sim:h20', '--models-from', join(source, 'tests/integration/sim-models.yaml')];
    const first = await Serve.start({ models: [], flags: [...slow, ...flags] });
    const model = (await (await fetch(`${first.url}/v1/models`)).json()).data[0].id;
    const readers = await openStreams(first, 3, { model, max_tokens: 150 });
    first.process.kill('SIGTERM');
    await first.waitFor((e) => e.event === 'draining');
    if (signals === 2) first.process.kill('SIGTERM');
    for (const text of await Promise.all(readers.map(rest))) assert.match(text, /shutting down/);
    assert.equal((await first.exited).code, 0);
    await first.launch();
    assert.equal((await first.waitFor((e) => e.event === 'recovered')).unfinished, '3');
    const ended = new Set();
    await first.waitFor((e) => e.event === 'seq_end' && e.end === 'length' && ended.add(e.seq).size === 3);
    assert.equal(await first.stop(), 0);
  });
}

test('a killed serve: the next start on its data folder waits for what is left of it', async () => {
  const first = await Serve.start();
  first.process.kill('SIGKILL');
  await first.exited;
  await first.launch(); // at once: scheduler, worker and Redis of the one before are still ending
  assert.equal(await first.stop(), 0);
});

test('stopped processes end with the others, by themselves; the port file goes', async () => {
  const first = await Serve.start({ args: (dir) => ['--port-file', join(dir, 'port')] });
  const file = join(first.dir, 'port');
  await first.waitFor((e) => e.event === 'child_started' && e.name === 'worker');
  assert.equal(Number(readFileSync(file, 'utf8')), first.port);
  for (const name of ['device', 'worker', 'scheduler', 'redis']) process.kill(first.pid(name), 'SIGSTOP');
  first.process.kill('SIGTERM');
  assert.equal((await first.exited).code, 0);
  assert.deepEqual(first.lines.filter((l) => /event=(child|devices)_killed/.test(l)), []);
  assert.ok(!existsSync(file));
  await first.stop();
});
