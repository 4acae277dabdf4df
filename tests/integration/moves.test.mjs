// A second worker joins while streams run: models move to it, and every stream goes on as it would have.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, bin, names, source } from './serve.mjs';

// One millisecond between tokens: a few of these small models then fill a device, as large ones do with 100 ms.
const flags = ['--tbt', '1ms'];
let serve, joined;
before(async () => { serve = await Serve.start({ flags }); });
after(async () => {
  joined?.kill('SIGTERM');
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
});

const request = (i) => ({
  model: names[i % 3], prompt: `Of the nature of ${'abcdef'[i]}`, max_tokens: 400, ignore_eos: true,
  temperature: i % 2 ? 1 : 0, seed: i, logprobs: 0, stream: true });

async function stream(body, onTokens = () => {}) {
  const response = await fetch(`${serve.url}/v1/completions`, { method: 'POST', body: JSON.stringify(body) });
  const tokens = [];
  let rest = '';
  for await (const bytes of response.body.pipeThrough(new TextDecoderStream())) {
    rest += bytes;
    for (let cut; (cut = rest.indexOf('\n\n')) >= 0; rest = rest.slice(cut + 2)) {
      const data = rest.slice(0, cut).replace(/^data: /, '');
      if (data !== '[DONE]') tokens.push(...(JSON.parse(data).choices?.[0]?.logprobs?.tokens ?? []));
      onTokens(tokens.length);
    }
  }
  return tokens;
}

function joinWorker() {
  const args = ['worker', '--node', 'second', '--scheduler-address', `unix:${join(serve.dir, 'worker.sock')}`];
  for (const n of names) args.push('--model', `${n}=${join(source, 'demo/models', n)}`);
  joined = spawn(bin, args, { stdio: 'ignore' });
}

test('models move to a worker that joins, in mid-stream', async () => {
  const alone = [];
  for (let i = 0; i < 6; i++) alone.push(await stream(request(i)));
  const from = serve.lines.length;
  let caught = false, begun = false;
  const moved = serve.waitFor((e) => e.event === 'seq_moved' && Number(e.tokens) > 0, { from })
    .finally(() => { caught = true; });
  // A stream that ends is started again, so that no model is ever without work: one that were would simply begin its
  // next sequence on the idle device.
  const again = async (i) => {
    do {
      assert.deepEqual(await stream(request(i), (n) => {
        if (n >= 5 && !begun) { begun = true; joinWorker(); }
      }), alone[i]);
    } while (!caught);
  };
  await Promise.all([moved, ...[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5].map(again)]);
});
