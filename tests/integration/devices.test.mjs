// `briareus load --find-devices` on simulated GPUs at 50 times their speed: what it finds is held against arithmetic.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { bin, source } from './serve.mjs';

const dir = mkdtempSync(join(tmpdir(), 'briareus-devices-'));
after(() => rmSync(dir, { recursive: true }));
const models = join(source, 'tests/integration/sim-models.yaml');

function load(args) {
  return new Promise((resolve) => {
    const child = spawn(bin, ['load', '--find-devices', '--quiet', ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (d) => { said += d; });
    child.on('close', (code) => resolve({ code, said }));
  });
}

test('two models that never rest need two devices when each has its own, and a page says so', async () => {
  const json = join(dir, 'found.json'), html = join(dir, 'found.html');
  const { code, said } = await load([
    '--policy', 'dedicated', '--policy', 'slack', '--model', 'qwen72b-0', '--model', 'qwen72b-1',
    '--arrivals', 'constant', '--request-rate', '8', '--duration', '2s', '--output-len', '20', '--input-len', '50',
    '--prompt-format', 'ids', '--vocab-size', '200', '--ignore-eos', '--ttft', '2s', '--tbt', '50ms',
    '--max-dispatch-delay', '1s', '--result-filename', json, '--html', html,
    '--', '--device', 'sim:h20', '--speed', '50', '--models-from', models]);
  assert.equal(code, 0, said);
  const found = JSON.parse(readFileSync(json, 'utf8'));
  assert.deepEqual(found.policies.map((p) => [p.policy, p.devices]), [['dedicated', 2], ['slack', 1]]);
  assert.equal(found.workload.requests, 16);
  // A prompt and twenty steps of 30 ms at 50 times the speed are 14 ms: 8 a second leave a device idle.
  for (const p of found.policies) assert.equal(p.attainment, 1);
  assert.deepEqual(found.policies.map((p) => p.plan_devices), [2, 1]); // on a clock that goes 50 times as fast
  assert.match(readFileSync(html, 'utf8'), /Fewest devices with 99 % of tokens on time/);
});

test('what no count of devices holds is stopped early and said', async () => {
  const json = join(dir, 'none.json');
  const { code, said } = await load([
    '--policy', 'slack', '--model', 'qwen72b-0', '--arrivals', 'constant', '--request-rate', '2', '--duration', '60s',
    '--output-len', '200', '--input-len', '50', '--prompt-format', 'ids', '--vocab-size', '200', '--ignore-eos',
    '--ttft', '500ms', '--tbt', '1ms', '--max-dispatch-delay', '1s', '--result-filename', json,
    '--', '--device', 'sim:h20', '--models-from', models]); // a step takes 29 ms
  assert.equal(code, 0, said);
  const [slack] = JSON.parse(readFileSync(json, 'utf8')).policies;
  assert.equal(slack.devices, null);
  assert.equal(slack.plan_devices, null);
  assert.equal(slack.trials.length, 1);
  assert.equal(slack.trials[0].stopped_early, true);
  assert.ok(slack.trials[0].attainment < .99);
  assert.ok(slack.trials[0].plan_attainment < .5);
});

test('a mistake in the words for serve is told before anything starts', async () => {
  const { code, said } = await load(['--model', 'm', '--', '--device', 'sim:h20', '--models-fro', models]);
  assert.equal(code, 2);
  assert.match(said, /models-from/);
  const other = await load(['--model', 'nobody', '--', '--device', 'sim:h20', '--models-from', models]);
  assert.equal(other.code, 2);
  assert.match(other.said, /nobody/);
});
