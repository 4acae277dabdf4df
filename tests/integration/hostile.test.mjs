// Bad input and bad neighbours: right answers, nobody else disturbed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { connect } from 'node:net';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, truncateSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, refused, source } from './serve.mjs';

const broken = mkdtempSync(join(tmpdir(), 'briareus-broken-'));
let serve;
before(async () => {
  // One of three models has a truncated weights file; another one cannot fit.
  cpSync(join(source, 'demo/models/hacker'), broken, { recursive: true });
  truncateSync(join(broken, 'model.safetensors'), 100000);
  serve = await Serve.start({
    models: [`prophet=${join(source, 'demo/models/prophet')}`, `broken=${broken}`],
    flags: ['--redis-memory', '64M', '--max-head', '32K'] });
});
after(async () => {
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
  rmSync(broken, { recursive: true, force: true });
});

async function post(path, body) {
  const response = await fetch(serve.url + path, { method: 'POST', body });
  return { status: response.status, json: await response.json() };
}

/** Sends raw bytes, resolves with everything that came back until the end. */
function raw(port, bytes, { end = false } = {}) {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => { socket.write(bytes); if (end) socket.end(); });
    let heard = '';
    socket.setEncoding('utf8');
    socket.on('data', (d) => { heard += d; });
    socket.on('close', () => resolve(heard));
    socket.on('error', (e) => (e.code === 'ECONNRESET' ? resolve(heard) : reject(e)));
  });
}

const good = { model: 'prophet', prompt: 'And', max_tokens: 8, temperature: 0 };

test('a broken model is refused with file and numbers; the other serves', async () => {
  const { status, json } = await post('/v1/completions', JSON.stringify({ ...good, model: 'broken' }));
  assert.equal(status, 503);
  assert.match(json.error.message, /model\.safetensors/);
  assert.match(json.error.message, /\d{4,}/);
  assert.equal((await post('/v1/completions', JSON.stringify(good))).status, 200);
});

test('malformed requests get OpenAI error bodies', async () => {
  const cases = [
    ['/v1/completions', '{', 400], ['/v1/completions', '[]', 400], ['/v1/completions', '{"model":"prophet"}', 400],
    ['/v1/completions', JSON.stringify({ ...good, max_tokens: -1 }), 400],
    ['/v1/completions', JSON.stringify({ ...good, prompt: [99999999] }), 400],
    ['/v1/chat/completions', JSON.stringify({ model: 'prophet', messages: [] }), 400],
    ['/v1/completions', JSON.stringify({ ...good, model: 'x' }), 404], ['/v1/nothing', '{}', 404],
    ['/v1/completions', '['.repeat(100000), 400],
  ];
  for (const [path, body, want] of cases) {
    const { status, json } = await post(path, body);
    assert.equal(status, want, `${path} ${body.slice(0, 60)}`);
    assert.equal(typeof json.error.message, 'string');
    assert.equal(typeof json.error.type, 'string');
  }
});

test('raw HTTP: garbage, pipelining, oversize', async () => {
  assert.match(await raw(serve.port, 'NOT HTTP AT ALL\r\n\r\n'), /^HTTP\/1\.1 400 /);
  const body = JSON.stringify(good);
  const one = `POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const last = one.replace('Host: x', 'Host: x\r\nConnection: close');
  const answers = await raw(serve.port, one + one + last);
  assert.equal(answers.match(/HTTP\/1\.1 200 OK/g).length, 3);
  assert.match(await raw(serve.port, 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n'),
    /^HTTP\/1\.1 413 /);
  const head = (length) => raw(serve.port,
    `GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ${'y'.repeat(length)}\r\n\r\n`);
  assert.match(await head(32 * 1024 - 200), /^HTTP\/1\.1 200 /); // --max-head
  assert.match(await head(32 * 1024), /^HTTP\/1\.1 431 /);
});

test('a stranger on the worker port is dropped and logged', async () => {
  const from = serve.lines.length;
  await new Promise((resolve) => {
    const socket = connect(join(serve.dir, 'worker.sock'), () => socket.write(Buffer.alloc(64, 0xff)));
    socket.on('close', resolve);
    socket.on('error', resolve);
    socket.resume();
  });
  await serve.waitFor((e) => e.comp === 'scheduler' && /peer|stranger|link/.test(e.event ?? ''), { from });
  assert.equal((await post('/v1/completions', JSON.stringify(good))).status, 200);
});

test('a full Redis: what was accepted goes on to its end, new requests get 503', async () => {
  const redis = (...args) => execFileSync('redis-cli', ['-s', join(serve.dir, 'redis.sock'), ...args],
    { encoding: 'utf8' }).trim().split('\n').at(-1);
  assert.equal(redis('CONFIG', 'GET', 'maxmemory'), String(64 * 1024 * 1024));
  assert.equal(redis('CONFIG', 'GET', 'maxmemory-policy'), 'noeviction');
  const response = await fetch(`${serve.url}/v1/completions`, {
    method: 'POST', body: JSON.stringify({ ...good, max_tokens: 400, ignore_eos: true, stream: true }) });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let heard = (await reader.read()).value; // it was accepted
  redis('CONFIG', 'SET', 'maxmemory', '1');
  const { status, json } = await post('/v1/completions', JSON.stringify(good));
  assert.equal(status, 503, JSON.stringify(json));
  assert.match(json.error.message, /was not stored.*full.*--redis-memory/);
  for (let part; !(part = await reader.read()).done;) heard += part.value;
  assert.match(heard, /"finish_reason": ?"length"/);
  assert.match(heard, /data: \[DONE\]/);
  assert.equal(redis('ZCARD', 'briareus:unfinished'), '0');
  redis('CONFIG', 'SET', 'maxmemory', '64mb');
  assert.equal((await post('/v1/completions', JSON.stringify(good))).status, 200);
});

test('two servers never share a data folder', async () => {
  const { code, said } = await refused(['--model', `prophet=${join(source, 'demo/models/prophet')}`, '--data-dir', serve.dir]);
  assert.equal(code, 1);
  assert.match(said, new RegExp(`is in use by process ${serve.process.pid}`));
});

test('what cannot work ends at once and names the option', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'briareus-refused-'));
  const sockets = join(dir, 'tmp'); // where the folder for sockets is made when there is no --run-dir
  mkdirSync(sockets);
  const model = ['--model', `prophet=${join(source, 'demo/models/prophet')}`, '--data-dir', dir];
  const cases = [
    [['--policy', 'x'], 2, /policy: 'x'/], [['--device', 'cuda'], 2, /device: 'cuda'/],
    [['--redis-memory', '1M'], 2, /redis-memory: '1M' is not bytes.* from 16M/], [['--keep-ended', '1s'], 2, /keep-ended: /],
    [['--device-memory', '10000G'], 2, /device-memory: 10000\.0G .* memory that this machine has/],
    [['--host-kv-memory', '10000G'], 2, /host-kv-memory: /], [['--device-link', '1'], 2, /device-link: 1 bytes a second/],
    [['--prot', '1'], 2, /did you mean 'port'/], [['--redis-server', '/bin/false'], 1, /redis: it ended with status 1/],
    [['--device-memory', '1M'], 2, /cannot work with this configuration/],
  ];
  for (const [flags, want, says] of cases) {
    const { code, said } = await refused([...model, ...flags], { TMPDIR: sockets, BRIAREUS_CUDA_PLUGIN: '/nowhere' });
    assert.equal(code, want, `${flags}: ${said}`);
    assert.match(said, says);
    assert.deepEqual(readdirSync(sockets), [], `${flags} left its folder behind`);
  }
  rmSync(dir, { recursive: true, force: true });
});
