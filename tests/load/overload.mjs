// More than a server can do on time, for a while: what it accepts has to stay on time, the others are told when to come
// back and are accepted then. Open loop, Poisson, answers as streams; whoever is refused obeys Retry-After once.
import http from 'node:http';

/** Numbers that a seed gives (mulberry32), and laws of them. */
function draws(seed) {
  const next = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  return {
    next,
    gap: (rate) => -Math.log(1 - next()) / rate,
    length: (median, sigma, least, most) =>
      Math.round(Math.min(most, Math.max(least, median * Math.exp(sigma * normal())))),
  };
}

/** One attempt. Resolves with status, retry (s), and how many of its tokens came and were on time. */
function attempt(agent, url, request, slo) {
  return new Promise((resolve, reject) => {
    const sent = performance.now();
    const body = JSON.stringify({ ...request, stream: true, ignore_eos: true, temperature: 0,
      stream_options: { include_usage: true, continuous_usage_stats: true } });
    const out = { status: 0, retry: 0, tokens: 0, late: 0, whole: false };
    const call = http.request(`${url}/v1/completions`, { method: 'POST', agent }, (response) => {
      out.status = response.statusCode;
      out.retry = Number(response.headers['retry-after'] ?? 0);
      response.setEncoding('latin1');
      let rest = '';
      response.on('data', (text) => {
        if (out.status !== 200) return;
        const age = (performance.now() - sent) / 1000;
        rest += text;
        let total = out.tokens;
        for (const m of rest.matchAll(/"completion_tokens":(\d+)/g)) total = Math.max(total, Number(m[1]));
        rest = rest.slice(rest.lastIndexOf('\n') + 1);
        for (; out.tokens < total; out.tokens++) out.late += age > slo.ttft + out.tokens * slo.tbt;
      });
      response.on('end', () => { out.whole = out.tokens === request.max_tokens; resolve(out); });
      response.on('error', reject);
    });
    call.on('error', reject);
    call.end(body);
  });
}

const wait = (s) => new Promise((resolve) => setTimeout(resolve, s * 1000));

/**
 * Sends for `seconds` at `rate` requests/s and waits for all that came of it.
 * Returns counts: offered, accepted (at first), refused, came_back, welcome (of those), attainment of all accepted.
 */
export async function overload({ url, models, rate, seconds, slo, seed = 1, prompt = [540, .78, 16, 4096],
  output = [242, .6, 16, 2048], obey = true, log }) {
  const draw = draws(seed), agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
  const sum = { offered: 0, accepted: 0, refused: 0, came_back: 0, welcome: 0, tokens: 0, late: 0, broken: 0,
    retries: [], other: {} };
  const count = (a, request) => {
    sum.tokens += request.max_tokens;
    sum.late += a.late + request.max_tokens - a.tokens;
    sum.broken += !a.whole;
  };
  const one = async (request) => {
    const first = await attempt(agent, url, request, slo);
    if (first.status === 200) {
      sum.accepted++;
      return count(first, request);
    }
    sum.refused++;
    sum.other[first.status] = (sum.other[first.status] ?? 0) + 1;
    sum.retries.push(first.retry);
    if (!obey) return undefined;
    await wait(first.retry);
    const second = await attempt(agent, url, request, slo);
    sum.came_back++;
    if (second.status !== 200) return undefined;
    sum.welcome++;
    return count(second, request);
  };
  const calls = [], from = performance.now();
  for (let at = draw.gap(rate); at < seconds; at += draw.gap(rate)) {
    await wait(Math.max(0, at - (performance.now() - from) / 1000));
    calls.push(one({ model: models[Math.floor(draw.next() * models.length)],
      prompt: Array.from({ length: draw.length(...prompt) }, () => 32 + Math.floor(90 * draw.next())),
      max_tokens: draw.length(...output) }));
    sum.offered++;
  }
  if (log) log({ ...sum, retries: undefined, phase: 'sent' });
  await Promise.all(calls);
  agent.destroy();
  sum.retries.sort((a, b) => a - b);
  return { ...sum, retries: undefined, retry_p50: sum.retries[sum.retries.length >> 1] ?? 0,
    retry_max: sum.retries.at(-1) ?? 0, attainment: sum.tokens ? 1 - sum.late / sum.tokens : 1,
    accepted_share: sum.accepted / sum.offered, welcome_share: sum.came_back ? sum.welcome / sum.came_back : 1 };
}
