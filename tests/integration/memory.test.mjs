// What serving the demo takes beside the configured arenas: worker and scheduler together under 300 MiB resident.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Serve, names } from './serve.mjs';

const arenas = { 'device-memory': 21, 'host-kv-memory': 64 }; // MiB

function residentKiB(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
}

test('resident size while serving', async () => {
  const serve = await Serve.start({
    flags: Object.entries(arenas).flatMap(([k, v]) => [`--${k}`, `${v}M`]),
    args: (dir) => ['--kv-disk', join(dir, 'kv'), '--kv-disk-size', '64M'] });
  const file = join(serve.dir, 'kv');
  assert.ok(existsSync(file));
  await Promise.all(Array.from({ length: 60 }, (_, i) => fetch(`${serve.url}/v1/completions`, {
    method: 'POST', body: JSON.stringify({ model: names[i % 3], prompt: 'And', max_tokens: 200, ignore_eos: true }),
  }).then((r) => r.json())));
  const kib = ['scheduler', 'worker', 'device'].map((name) => [name, residentKiB(serve.pid(name))]);
  const total = kib.reduce((sum, [, n]) => sum + n, 0) / 1024;
  console.log(`resident MiB: ${kib.map(([name, n]) => `${name} ${(n / 1024).toFixed(1)}`).join(', ')}; all ${total.toFixed(1)}`);
  assert.ok(total < 300, `${total} MiB`); // the arenas' touched part is in this figure, so it is an upper bound
  serve.process.kill('SIGTERM');
  await serve.exited;
  assert.ok(!existsSync(file));
  assert.equal(await serve.stop(), 0);
});
