// Random kill -9 under load: see tests/soak.sh.
import { join } from 'node:path';
import { Serve, badLines, names, parseLine } from './integration/serve.mjs';
import { idsOf, redis } from './soak_redis.mjs';

const [minutes, seed, streams] = process.argv.slice(2).map(Number);
const KINDS = 24, VICTIMS = ['device', 'worker', 'scheduler', 'redis'];
const KILL_MIN_S = 2, KILL_MAX_S = 8, ALL_OVER_MS = 120000;

/** mulberry32: the same seed kills and asks the same way (the times are the machine's). */
let state = seed >>> 0;
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const request = (kind) => ({
  model: names[kind % 3], prompt: `Of the nature of ${String.fromCharCode(97 + kind)}`, ignore_eos: true,
  max_tokens: 100 + 20 * (kind % 16), temperature: kind % 2 ? 1 : 0, seed: kind, logprobs: 0, stream: true });

const figures = { accepted: 0, whole: 0, cut: 0, refused: 0, unanswered: 0, tokens: 0, longestSilenceMs: 0,
  longestOutageMs: 0, kills: Object.fromEntries(VICTIMS.map((v) => [v, 0])) };
let lastToken = 0; // of any stream

function count(n, since) {
  const now = performance.now();
  figures.tokens += n;
  figures.longestSilenceMs = Math.max(figures.longestSilenceMs, now - since);
  figures.longestOutageMs = Math.max(figures.longestOutageMs, now - lastToken);
  lastToken = now;
  return now;
}

/** One streamed completion: its request id (undefined: not accepted), the tokens that came, and whether all did. */
async function stream(serve, kind) {
  const body = JSON.stringify(request(kind));
  const response = await fetch(`${serve.url}/v1/completions`, { method: 'POST', body }).catch(() => null);
  if (!response) { figures.unanswered++; return {}; }
  if (response.status !== 200) { figures.refused++; await response.text().catch(() => ''); return {}; }
  const tokens = [];
  let rest = '', whole = false, since = performance.now();
  try {
    for await (const bytes of response.body.pipeThrough(new TextDecoderStream())) {
      rest += bytes;
      for (let cut; (cut = rest.indexOf('\n\n')) >= 0; rest = rest.slice(cut + 2)) {
        const data = rest.slice(0, cut).replace(/^data: /, '');
        if (data === '[DONE]') { whole = true; continue; }
        if (data.startsWith(':')) continue; // a ping
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        const heard = chunk.choices?.[0]?.logprobs?.tokens ?? [];
        tokens.push(...heard);
        if (heard.length) since = count(heard.length, since);
      }
    }
  } catch { /* the connection broke: what came so far counts */ }
  return { kind, id: response.headers.get('x-request-id'), tokens, whole };
}

/** Sequence id by request id, from the log: the last word counts. */
function sequences(serve) {
  const seqs = new Map();
  for (const event of serve.lines.map(parseLine)) if (event.event === 'seq_end') seqs.set(event.req, event);
  return seqs;
}

const idsIn = async (serve, seq) => idsOf(await redis(join(serve.dir, 'redis.sock'), 'LRANGE', `briareus:t:${seq}`, '0', '-1'));

async function undisturbed(serve) {
  const alone = await Promise.all(Array.from({ length: KINDS }, (_, kind) => stream(serve, kind)));
  const seqs = sequences(serve);
  for (const r of alone) {
    if (!r.whole) throw new Error(`request ${r.kind} did not finish undisturbed`);
    r.ids = await idsIn(serve, seqs.get(r.id).seq);
  }
  return alone;
}

async function load(serve, until, results) {
  while (performance.now() < until) {
    const result = await stream(serve, Math.floor(random() * KINDS));
    if (result.id) results.push(result);
    else await sleep(50); // refused or unanswered: the server is coming back
  }
}

async function kills(serve, until) {
  for (;;) {
    await sleep((KILL_MIN_S + random() * (KILL_MAX_S - KILL_MIN_S)) * 1000);
    if (performance.now() >= until) return;
    const victim = VICTIMS[Math.floor(random() * VICTIMS.length)];
    try {
      process.kill(serve.pid(victim), 'SIGKILL');
      figures.kills[victim]++;
    } catch { /* it is just being started again */ }
  }
}

/** Nothing tells when Redis holds nothing unfinished any more, so it is asked. */
async function allOver(serve) {
  const end = performance.now() + ALL_OVER_MS;
  for (;;) {
    const left = await redis(join(serve.dir, 'redis.sock'), 'ZCARD', 'briareus:unfinished').catch(() => -1);
    if (left === 0 || performance.now() > end) return left;
    await sleep(100);
  }
}

/** What is wrong with a result, or null. */
async function judge(serve, seqs, result, alone) {
  const want = alone[result.kind], end = seqs.get(result.id);
  if (!end) return 'it never ended';
  if (end.end !== 'length') return `it ended as ${end.end}: ${end.error}`;
  if (result.tokens.some((t, i) => t !== want.tokens[i])) return 'other text was streamed';
  if (result.whole && result.tokens.length !== want.tokens.length) return 'tokens are missing in the stream';
  const ids = await idsIn(serve, end.seq);
  if (ids.length !== want.ids.length || ids.some((id, i) => id !== want.ids[i])) return 'other ids are stored';
  return null;
}

const serve = await Serve.start({ flags: ['--admission=false', '--device-link', '64M', '--keep-tokens', '--keep-ended', '86400'] });
const wrong = [], results = [];
try {
  const alone = await undisturbed(serve);
  const until = performance.now() + minutes * 60000;
  Object.assign(figures, { tokens: 0, longestSilenceMs: 0, longestOutageMs: 0 });
  lastToken = performance.now();
  await Promise.all([kills(serve, until), ...Array.from({ length: streams }, () => load(serve, until, results))]);
  const left = await allOver(serve);
  if (left !== 0) wrong.push(`${left} sequences are unfinished`);
  const seqs = sequences(serve);
  for (const result of results) {
    const why = await judge(serve, seqs, result, alone);
    if (why) wrong.push(`${result.id} (request ${result.kind}, ${result.tokens.length} tokens heard): ${why}`);
  }
  wrong.push(...badLines(serve));
  figures.accepted = results.length;
  figures.whole = results.filter((r) => r.whole).length;
  figures.cut = figures.accepted - figures.whole;
} finally {
  await serve.stop();
}
const { kills: killed, ...rest } = figures;
console.log(`minutes ${minutes}, seed ${seed}, streams ${streams}`);
console.log(`killed: ${VICTIMS.map((v) => `${v} ${killed[v]}`).join(', ')}`);
console.log(`requests: accepted ${rest.accepted}, streamed whole ${rest.whole}, cut and finished without their client ` +
  `${rest.cut}; refused ${rest.refused}, unanswered ${rest.unanswered}`);
console.log(`tokens streamed ${rest.tokens}; longest silence of a stream ${(rest.longestSilenceMs / 1000).toFixed(2)} s, ` +
  `of all streams ${(rest.longestOutageMs / 1000).toFixed(2)} s`);
console.log(`wrong: ${wrong.length}`);
wrong.slice(0, 20).forEach((w) => console.log(`  ${w}`));
process.exit(wrong.length || results.length === 0 ? 1 : 0);
