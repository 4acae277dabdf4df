// 72B-class models on simulated GPUs through the real daemons: answers, the same ones again, after a death too; one
// that fits nowhere.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, parseLine, refused, source } from './serve.mjs';

const file = join(source, 'tests/integration/sim-models.yaml');
let serve;
before(async () => {
  serve = await Serve.start({
    models: [], flags: ['--device', 'sim:h20', '--devices', '2', '--speed', '20', '--models-from', file] });
  await serve.waitFor((e) => e.event === 'device_up' && e.device === '0');
  await serve.waitFor((e) => e.event === 'device_up' && e.device === '1');
});
after(async () => {
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
});

const post = async (path, body) => {
  const response = await fetch(`${serve.url}${path}`, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
};

const request = (i) => ({
  model: `qwen72b-${i % 6}`, prompt: `Question ${i}: ${'why '.repeat(40 * (i % 3))}`, max_tokens: 30 + 5 * i,
  temperature: i % 2, seed: i });

const text = async (i) => (await post('/v1/completions', request(i))).body.choices[0].text;
const all = () => Promise.all([...Array(8).keys()].map(text));
let first;

test('six models on two devices answer, each time the same', async () => {
  first = await all();
  first.forEach((t, i) => assert.match(t, new RegExp(`^[ -~]{${30 + 5 * i}}$`)));
  assert.equal(new Set(first).size, 8);
  assert.deepEqual(await all(), first);
});

test('a chat, and a prompt of token ids', async () => {
  const chat = await post('/v1/chat/completions', {
    model: 'qwen72b-0', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 5 });
  assert.equal(chat.status, 200);
  assert.equal(chat.body.usage.completion_tokens, 5);
  assert.equal(chat.body.choices[0].finish_reason, 'length');
  const ask = (prompt) => post('/v1/completions', { model: 'qwen72b-1', prompt, max_tokens: 8, temperature: 0 });
  const [ids, words] = [await ask([72, 105]), await ask('Hi')]; // a token is a byte
  assert.equal(ids.body.choices[0].text, words.body.choices[0].text);
});

test('a killed device: the answers are those of before', async () => {
  const from = serve.lines.length, victim = serve.pid('device');
  const answers = all();
  await serve.waitFor((e) => e.event === 'seq_assigned', { from });
  process.kill(victim, 'SIGKILL');
  assert.deepEqual(await answers, first);
  await serve.waitFor((e) => e.event === 'device_started' && Number(e.pid) !== victim, { from });
});

test('steps and loads take their time, no more', async () => {
  // 41 GB over 51.2 GB/s, a twentieth of it; a step of one sequence reads 38 GB at .67 of 4 TB/s: 14 ms and more
  const { devices } = await (await fetch(`${serve.url}/stats`)).json();
  for (const m of devices[0].models.filter((m) => m.name.startsWith('qwen'))) {
    assert.ok(Math.abs(m.load_s * 20 - 41.5e9 / 51.2e9) < .02, `load ${m.load_s}`);
    assert.ok(m.step_s * 20 > .014 && m.step_s * 20 < .035, `step ${m.step_s}`);
  }
});

test('a model that fits on no device is refused with the numbers, the others are served', async () => {
  const { status, body } = await post('/v1/completions', { model: 'bf16', prompt: 'Hi', max_tokens: 4 });
  assert.ok(status >= 400 && status < 600);
  assert.match(body.error.message, /bf16 has 145\.4 GB of weights, 1 x H20 has room for 83\.3 GB/);
  const said = serve.lines.map(parseLine).find((e) => e.event === 'model_failed' && e.model === 'bf16');
  assert.match(said.why, /145\.4 GB/);
});

test('wrong options end with one sentence and status 2', async () => {
  const cases = [
    [['--device', 'sim:h21', '--models-from', file], /unknown GPU 'h21': did you mean 'H20'/],
    [['--device', 'cpu', '--models-from', file], /has a shape but no weights: it needs --device sim:GPU/],
    [['--device', 'sim:h20', '--speed', '0', '--models-from', file], /speed: '0' is not a number from 0\.01 to 1000/],
    [['--device', 'sim:h20', '--models-from', join(source, 'README.md')], /README\.md/],
    [['--device', 'sim:h20', '--models-from', '/nonexistent.yaml'], /models file \/nonexistent\.yaml: No such file/],
    [['--device', 'sim:h20', '--model', 'x=/nonexistent'], /\/nonexistent\/config\.json: No such file/],
    [['--device', 'sim:a10', '--models-from', file], /none of 7 models can be served; the first: qwen72b-0 has 41/],
  ];
  for (const [args, says] of cases) {
    const { code, said } = await refused(['--data-dir', join(serve.dir, 'refused'), ...args]);
    assert.equal(code, 2, said);
    assert.match(said, says);
  }
});
