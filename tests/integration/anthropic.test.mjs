// Anthropic's client against `briareus serve`: what it parses, streams, throws and tries again.
import assert from 'node:assert/strict';
import http from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, source } from './serve.mjs';

const require = createRequire(join(source, 'tests/npm/package.json'));
const Anthropic = require('@anthropic-ai/sdk').default ?? require('@anthropic-ai/sdk');
const OpenAI = require('openai').default ?? require('openai');

let serve;
let client;
let openai;
before(async () => {
  serve = await Serve.start();
  client = new Anthropic({ baseURL: serve.url, apiKey: 'none', maxRetries: 0 });
  openai = new OpenAI({ baseURL: `${serve.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
});

const messages = [{ role: 'user', content: 'What is light?' }];
const ask = (extra = {}) => client.messages.create({
  model: 'newton', messages, max_tokens: 30, temperature: 0, ...extra });

test('an answer is what the chat endpoint of the other API says to the same', async () => {
  const answer = await ask({ system: 'Be kind.' });
  const chat = await openai.chat.completions.create({
    model: 'newton', max_tokens: 30, temperature: 0, messages: [{ role: 'system', content: 'Be kind.' }, ...messages] });
  assert.equal(answer.type, 'message');
  assert.equal(answer.role, 'assistant');
  assert.deepEqual(answer.content, [{ type: 'text', text: chat.choices[0].message.content }]);
  assert.equal(answer.stop_reason, chat.choices[0].finish_reason === 'length' ? 'max_tokens' : 'end_turn');
  assert.equal(answer.usage.input_tokens, chat.usage.prompt_tokens);
  assert.equal(answer.usage.output_tokens, chat.usage.completion_tokens);
});

test('the streaming helper puts the same message together', async () => {
  const plain = await ask();
  const stream = client.messages.stream({ model: 'newton', messages, max_tokens: 30, temperature: 0 });
  let text = '';
  stream.on('text', (delta) => { text += delta; });
  const final = await stream.finalMessage();
  assert.equal(text, plain.content[0].text);
  assert.deepEqual(final.content.map((c) => c.text), [plain.content[0].text]);
  assert.equal(final.stop_reason, plain.stop_reason);
  assert.equal(final.usage.input_tokens, plain.usage.input_tokens);
  assert.equal(final.usage.output_tokens, plain.usage.output_tokens);
});

test('stop sequences cut and are named', async () => {
  const whole = (await ask()).content[0].text;
  const stop = whole.slice(5, 9);
  const cut = await ask({ stop_sequences: ['never there', stop] });
  assert.equal(cut.content[0].text, whole.slice(0, whole.indexOf(stop)));
  assert.equal(cut.stop_reason, 'stop_sequence');
  assert.equal(cut.stop_sequence, stop);
});

test('tokens are counted as they are charged', async () => {
  const counted = await client.messages.countTokens({ model: 'newton', messages });
  assert.equal(counted.input_tokens, (await ask()).usage.input_tokens);
});

test('errors are the exception classes of the client', async () => {
  await assert.rejects(ask({ model: 'nobody' }),
    (e) => e instanceof Anthropic.NotFoundError && e.error.error.type === 'not_found_error');
  await assert.rejects(ask({ temperature: 9 }),
    (e) => e instanceof Anthropic.BadRequestError && /temperature/.test(e.message));
  await assert.rejects(ask({ messages: [{ role: 'user', content: 'and it came to pass '.repeat(2000) }] }),
    (e) => e instanceof Anthropic.BadRequestError && /512/.test(e.message));
  await assert.rejects(ask({ tools: [{ name: 't', input_schema: { type: 'object' } }] }), Anthropic.BadRequestError);
});

test('a client that leaves is cancelled', async () => {
  const from = serve.lines.length;
  const stream = client.messages.stream({ model: 'hacker', messages, max_tokens: 300, temperature: 0, ignore_eos: true });
  await new Promise((resolve) => stream.once('text', resolve));
  const ended = assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  stream.abort();
  await ended;
  const end = await serve.waitFor((e) => e.event === 'seq_end', { from });
  assert.equal(end.end, 'cancelled');
});

/** A proxy that answers the first `n` requests with 503 and what Retry-After says, and passes the rest on. */
async function flaky(n, retryAfter) {
  let seen = 0;
  const times = [];
  const server = http.createServer((req, res) => {
    times.push(performance.now());
    if (seen++ < n) {
      req.resume();
      res.writeHead(503, { 'Retry-After': retryAfter, 'Content-Type': 'application/json' }).end('{}');
      return;
    }
    req.pipe(http.request(`${serve.url}${req.url}`, { method: req.method, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.pipe(res);
    }));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, times, url: `http://127.0.0.1:${server.address().port}` };
}

test('both clients try again after 503, no sooner than Retry-After says, and then stream', async () => {
  const proxy = await flaky(1, '1');
  const again = new Anthropic({ baseURL: proxy.url, apiKey: 'none', maxRetries: 2 });
  const message = await again.messages.stream({ model: 'newton', messages, max_tokens: 5, temperature: 0 }).finalMessage();
  assert.ok(message.content[0].text.length > 0);
  assert.equal(proxy.times.length, 2);
  assert.ok(proxy.times[1] - proxy.times[0] >= 990);
  proxy.server.close();
  proxy.server.closeAllConnections();
  const other = await flaky(1, '1');
  const openaiAgain = new OpenAI({ baseURL: `${other.url}/v1`, apiKey: 'none', maxRetries: 2 });
  const chat = await openaiAgain.chat.completions.create({ model: 'newton', messages, max_tokens: 5, temperature: 0 });
  assert.equal(chat.choices.length, 1);
  assert.equal(other.times.length, 2);
  assert.ok(other.times[1] - other.times[0] >= 990);
  other.server.close();
  other.server.closeAllConnections();
});
