// More than a simulated GPU can do on time: what is too much is refused before work is spent on it and told when to come
// back; what is accepted comes whole; and with little to do nobody is refused. (How well that predicts: test_overload.)
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { overload } from '../load/overload.mjs';
import { Serve, badLines } from './serve.mjs';

const dir = mkdtempSync(join(tmpdir(), 'briareus-test-'));
const speed = 10, slo = { ttft: 10 / speed, tbt: .1 / speed };
let serve;
before(async () => {
  const file = join(dir, 'models.yaml');
  writeFileSync(file, 'models: [{name: m, catalogue: Qwen2.5-72B, weights: int4, count: 2}]\n');
  serve = await Serve.start({ models: [], flags: ['--device', 'sim:h20', '--speed', `${speed}`, '--models-from', file,
    '--ttft', `${slo.ttft}s`, '--tbt', `${slo.tbt * 1000}ms`] });
});
after(async () => {
  rmSync(dir, { recursive: true, force: true });
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
});

const run = (rate, seconds) => overload({ url: serve.url, models: ['m-0', 'm-1'], rate, seconds, slo,
  prompt: [300, .5, 16, 1000], output: [60, .4, 16, 200] });

test('one request a second and less: nobody is refused', async () => {
  const r = await run(1, 4);
  assert.equal(r.refused, 0);
  assert.equal(r.broken, 0);
});

test('forty a second: most are refused, with a time, and what is accepted comes whole', async () => {
  const r = await run(40, 3);
  assert.deepEqual(Object.keys(r.other), ['429']); // nothing else
  assert.ok(r.refused > r.offered / 4, `${r.refused} of ${r.offered}`);
  assert.ok(r.retry_p50 >= 1 && r.retry_max > r.retry_p50); // a queue, not one time for all
  assert.ok(r.accepted > 0 && r.welcome > 0);
  assert.equal(r.broken, 0);
});
