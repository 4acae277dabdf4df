// Starts `briareus serve` for a test and stops it again; waits on events (port file, log lines), never on a clock.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, existsSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import readline from 'node:readline';

export const source = process.env.BRIAREUS_SOURCE ?? new URL('../..', import.meta.url).pathname;
export const bin = join(process.env.BRIAREUS_BIN ?? join(source, 'build/bin'), 'briareus');
export const names = ['prophet', 'hacker', 'newton'];

/** A log line `k=v k="v w"`, or a JSON one, as an object of strings. */
export function parseLine(line) {
  if (line.startsWith('{')) { // --log-format json
    try { return Object.fromEntries(Object.entries(JSON.parse(line)).map(([k, v]) => [k, String(v)])); } catch { return {}; }
  }
  const out = {};
  for (const m of line.matchAll(/(\w+)=("(?:[^"\\]|\\.)*"|\S*)/g)) {
    out[m[1]] = m[2].startsWith('"') ? m[2].slice(1, -1) : m[2];
  }
  return out;
}

export class Serve {
  /** models: NAME=DIR list, default: the three demo models; flags, and args(dir) for those that name its folder. */
  static async start({ models, flags = [], args: more = () => [] } = {}) {
    const self = new Serve();
    self.dir = mkdtempSync(join(tmpdir(), 'briareus-test-'));
    models ??= names.map((n) => `${n}=${join(source, 'demo/models', n)}`);
    const args = ['serve', '--port', '0', '--data-dir', self.dir, '--run-dir', self.dir];
    for (const m of models) args.push('--model', m);
    self.args = [...args, ...flags, ...more(self.dir)];
    await self.launch();
    return self;
  }

  async launch() {
    this.lines = [];
    this.waiters = [];
    this.process = spawn(bin, this.args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.exited = new Promise((resolve) => this.process.on('exit', (code, signal) => resolve({ code, signal })));
    const heard = (line) => {
      this.lines.push(line);
      const event = parseLine(line);
      this.waiters = this.waiters.filter((w) => !(w.match(event, line) && (w.resolve(event), true)));
    };
    readline.createInterface({ input: this.process.stderr }).on('line', heard);
    readline.createInterface({ input: this.process.stdout }).on('line', heard);
    const serving = await this.waitFor((e) => e.event === 'serving');
    this.port = Number(serving.port);
    this.url = `http://127.0.0.1:${this.port}`;
    await this.waitFor((e) => e.event === 'device_up');
  }

  /** Resolves with the first event (already heard ones from line `from` on count) that matches. */
  waitFor(match, { from = 0, timeoutMs = 60000 } = {}) {
    for (const line of this.lines.slice(from)) {
      const event = parseLine(line);
      if (match(event, line)) return Promise.resolve(event);
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`no such event in ${timeoutMs} ms; last lines:\n${this.lines.slice(-20).join('\n')}`));
      }, timeoutMs);
      const ended = this.exited.then(() => {
        clearTimeout(timer);
        reject(new Error(`serve ended; last lines:\n${this.lines.slice(-20).join('\n')}`));
      });
      void ended;
      this.waiters.push({ match, resolve: (e) => { clearTimeout(timer); resolve(e); } });
    });
  }

  /** Pid of the latest process started under this name (scheduler, worker, redis) or `device`. */
  pid(name) {
    const event = name === 'device' ? 'device_started' : 'child_started';
    const found = this.lines.map(parseLine).filter((e) => e.event === event && (name === 'device' || e.name === name));
    return Number(found.at(-1)?.pid);
  }

  async stop() {
    this.process.kill('SIGTERM');
    const { code } = await this.exited;
    rmSync(this.dir, { recursive: true, force: true });
    return code;
  }
}

/** Runs `briareus serve` that is expected to end by itself; resolves with its exit status and what it said. */
export function refused(args, env = {}) {
  return new Promise((resolve) => {
    const child = spawn(bin, ['serve', '--port', '0', ...args],
      { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (d) => { said += d; });
    child.on('close', (code) => resolve({ code, said }));
  });
}

/** Lines of the log that should never be there. */
export function badLines(serve) {
  return serve.lines.filter((l) => /Sanitizer|runtime error|Assertion|invariant/.test(l));
}

export function readJson(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null;
}
