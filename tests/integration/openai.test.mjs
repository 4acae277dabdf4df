// The official client against `briareus serve`: what it parses, streams and throws.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Serve, badLines, names, source } from './serve.mjs';

const require = createRequire(join(source, 'tests/npm/package.json'));
const OpenAI = require('openai').default ?? require('openai');

let serve;
let client;
before(async () => {
  serve = await Serve.start();
  client = new OpenAI({ baseURL: `${serve.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
after(async () => {
  assert.equal(await serve.stop(), 0);
  assert.deepEqual(badLines(serve), []);
});

const ask = (model, extra = {}) => client.chat.completions.create({
  model, messages: [{ role: 'user', content: 'What is light?' }], max_tokens: 40, temperature: 0, ...extra });

test('models are listed and retrieved', async () => {
  const listed = [];
  for await (const m of client.models.list()) listed.push(m.id);
  assert.deepEqual(listed.sort(), [...names].sort());
  assert.equal((await client.models.retrieve('newton')).object, 'model');
});

test('chat: every model answers, all at once, usage adds up', async () => {
  const answers = await Promise.all(names.map((n) => ask(n)));
  for (const a of answers) {
    assert.equal(a.object, 'chat.completion');
    assert.equal(a.choices[0].message.role, 'assistant');
    assert.ok(a.choices[0].message.content.length > 0);
    assert.ok(['stop', 'length'].includes(a.choices[0].finish_reason));
    assert.equal(a.usage.total_tokens, a.usage.prompt_tokens + a.usage.completion_tokens);
    assert.ok(a.usage.completion_tokens <= 40);
  }
  assert.equal(new Set(answers.map((a) => a.choices[0].message.content)).size, 3);
});

test('chat streaming with include_usage gives what the plain answer gives', async () => {
  const plain = await ask('prophet');
  const stream = await ask('prophet', { stream: true, stream_options: { include_usage: true } });
  let text = '', finish = null, usage = null;
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    text += chunk.choices[0]?.delta?.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, plain.choices[0].message.content);
  assert.equal(finish, plain.choices[0].finish_reason);
  assert.equal(usage.completion_tokens, plain.usage.completion_tokens);
  assert.equal(usage.prompt_tokens, plain.usage.prompt_tokens);
  const n = plain.usage.prompt_tokens; // the same prompt again: all whole blocks of it are known, its last token is not
  assert.equal(usage.prompt_tokens_details.cached_tokens, n % 16 ? n - n % 16 : n - 1);
});

test('completions: text and token ids, streamed and not, give the same tokens', async () => {
  const params = { model: 'newton', max_tokens: 24, temperature: 0, logprobs: 1 };
  const text = await client.completions.create({ ...params, prompt: 'The rays of light' });
  assert.equal(text.object, 'text_completion');
  assert.equal(text.choices[0].logprobs.tokens.join(''), text.choices[0].text);
  for (const p of text.choices[0].logprobs.token_logprobs) assert.ok(p <= 0);
  const ids = await client.completions.create({ ...params, prompt: [1, 2, 3, 4, 5] });
  assert.equal(ids.usage.prompt_tokens, 5);
  let streamed = '';
  for await (const c of await client.completions.create({ ...params, prompt: 'The rays of light', stream: true })) {
    streamed += c.choices[0]?.text ?? '';
  }
  assert.equal(streamed, text.choices[0].text);
});

test('seeded sampling repeats, n gives distinct choices, stop strings cut', async () => {
  const sampled = { temperature: 1, seed: 7, n: 3, max_tokens: 24 };
  const [a, b] = [await ask('hacker', sampled), await ask('hacker', sampled)];
  const texts = (r) => r.choices.map((c) => c.message.content);
  assert.deepEqual(texts(a), texts(b));
  assert.deepEqual(a.choices.map((c) => c.index).sort(), [0, 1, 2]);
  assert.equal(new Set(texts(a)).size, 3);
  const whole = (await ask('prophet')).choices[0].message.content;
  const stop = whole.slice(5, 9);
  const cut = await ask('prophet', { stop });
  assert.equal(cut.choices[0].message.content, whole.slice(0, whole.indexOf(stop)));
  assert.equal(cut.choices[0].finish_reason, 'stop');
});

test('chat logprobs: one entry a token, alternatives in order, the greedy token is the likeliest', async () => {
  const answer = await ask('prophet', { logprobs: true, top_logprobs: 3, max_tokens: 10 });
  const entries = answer.choices[0].logprobs.content;
  assert.equal(entries.length, answer.usage.completion_tokens);
  for (const e of entries) {
    assert.equal(e.top_logprobs.length, 3);
    assert.equal(e.top_logprobs[0].token, e.token);
    assert.equal(e.top_logprobs[0].logprob, e.logprob);
    assert.ok(e.top_logprobs[0].logprob >= e.top_logprobs[1].logprob);
    assert.ok(e.top_logprobs.reduce((sum, t) => sum + Math.exp(t.logprob), 0) <= 1 + 1e-5);
  }
});

test('logit_bias: -100 bans the token that would come first, 100 forces one', async () => {
  const post = async (path, body) => (await fetch(`${serve.url}${path}`, { method: 'POST', body: JSON.stringify(body) })).json();
  const params = { model: 'newton', prompt: 'The rays of light', max_tokens: 1, temperature: 0 };
  const first = await client.completions.create(params);
  const prompt = 'The rays of light';
  const all = await post('/tokenize', { model: 'newton', prompt: prompt + first.choices[0].text });
  const { tokens } = await post('/tokenize', { model: 'newton', prompt });
  const id = all.tokens[tokens.length];
  const other = await client.completions.create({ ...params, logit_bias: { [id]: -100 } });
  assert.notEqual(other.choices[0].text, first.choices[0].text);
  const forced = await client.completions.create({ ...params, max_tokens: 3, temperature: 1, logit_bias: { [id]: 100 } });
  assert.equal(forced.choices[0].text, first.choices[0].text.repeat(3));
  assert.equal((await post('/detokenize', { model: 'newton', tokens: [id] })).prompt, first.choices[0].text);
});

test('sampling defaults come from the folder: temperature 0.6 and top_p 0.9 are what silence means', async () => {
  const sampled = { temperature: undefined, seed: 11, max_tokens: 40 };
  const silent = await ask('hacker', sampled);
  const spelt = await ask('hacker', { ...sampled, temperature: 0.6, top_p: 0.9 });
  assert.equal(silent.choices[0].message.content, spelt.choices[0].message.content);
});

test('unknown fields are ignored with one warning', async () => {
  const from = serve.lines.length;
  await ask('newton', { max_tokens: 1, no_such_field: 1 });
  await ask('newton', { max_tokens: 1, no_such_field: 2 });
  const said = serve.lines.slice(from).filter((l) => l.includes('event=unknown_field'));
  assert.equal(said.length, 1);
  assert.match(said[0], /no_such_field/);
});

test('health, readiness and what runs', async () => {
  assert.equal((await fetch(`${serve.url}/health`)).status, 200);
  assert.equal((await fetch(`${serve.url}/health/ready`)).status, 200);
  await ask('newton', { max_tokens: 1 });
  const { running } = await (await fetch(`${serve.url}/running`)).json();
  assert.ok(running.some((m) => m.model === 'newton' && m.resident_bytes > 0));
});

test('errors are the exception classes of the client', async () => {
  await assert.rejects(ask('nobody'), (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found');
  await assert.rejects(ask('prophet', { temperature: 9 }),
    (e) => e instanceof OpenAI.BadRequestError && e.param === 'temperature');
  const long = 'and it came to pass '.repeat(2000);
  await assert.rejects(ask('prophet', { messages: [{ role: 'user', content: long }] }), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.equal(e.code, 'context_length_exceeded');
    assert.match(e.message, /512/); // the model's length ...
    assert.match(e.message, /\d{4,}/); // ... and the prompt's
    return true;
  });
});

test('a client that leaves is cancelled', async () => {
  const from = serve.lines.length;
  const stream = await client.completions.create({
    model: 'hacker', prompt: 'a', max_tokens: 400, ignore_eos: true, stream: true, temperature: 0 });
  for await (const chunk of stream) { void chunk; break; } // leaving the loop aborts the request
  const end = await serve.waitFor((e) => e.event === 'seq_end', { from });
  assert.equal(end.end, 'cancelled');
});
