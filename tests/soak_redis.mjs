// What the private Redis holds of sequences, over its socket: a reader of RESP and of packed TokenRuns.
import { connect } from 'node:net';

/** Parses one RESP value in buf from at; undefined when it is not whole yet, else [value, next]. */
function parse(buf, at) {
  const eol = buf.indexOf('\r\n', at);
  if (eol < 0) return undefined;
  const kind = String.fromCharCode(buf[at]), head = buf.toString('latin1', at + 1, eol);
  if (kind === '+' || kind === '-') return [kind === '-' ? new Error(head) : head, eol + 2];
  if (kind === ':') return [Number(head), eol + 2];
  const n = Number(head);
  if (n < 0) return [null, eol + 2];
  if (kind === '$') return buf.length < eol + 4 + n ? undefined : [buf.subarray(eol + 2, eol + 2 + n), eol + 4 + n];
  const items = [];
  let next = eol + 2;
  for (let i = 0; i < n; i++) {
    const item = parse(buf, next);
    if (!item) return undefined;
    items.push(item[0]);
    next = item[1];
  }
  return [items, next];
}

/** One command over a connection of its own; strings come as Buffers. */
export function redis(path, ...words) {
  return new Promise((resolve, reject) => {
    let heard = Buffer.alloc(0);
    const socket = connect(path, () => socket.write(
      `*${words.length}\r\n${words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join('')}`));
    socket.on('data', (data) => {
      heard = Buffer.concat([heard, data]);
      const value = parse(heard, 0);
      if (!value) return;
      socket.destroy();
      if (value[0] instanceof Error) reject(value[0]); else resolve(value[0]);
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error(`${words[0]}: Redis closed the connection`)));
  });
}

/** Protobuf fields of buf: [number, BigInt | Buffer]; fixed32 and fixed64 as Buffers. */
function* fields(buf) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buf[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < buf.length) {
    const key = Number(varint()), type = key & 7;
    const length = type === 2 ? Number(varint()) : type === 5 ? 4 : 8;
    yield [key >> 3, type === 0 ? varint() : buf.subarray(at, (at += length))];
  }
}

/** The ids of a sequence's packed TokenRuns; where runs overlap the first stored tokens stand. */
export function idsOf(runs) {
  const ids = [];
  for (const run of runs) {
    let at = 0;
    const own = [];
    for (const [number, value] of fields(run)) {
      if (number === 1) at = Number(value);
      else if (number === 2) own.push([...fields(value)].find(([n]) => n === 1)?.[1] ?? 0n);
    }
    if (at > ids.length) throw new Error(`tokens ${ids.length} to ${at} are missing`);
    ids.push(...own.slice(ids.length - at).map(Number));
  }
  return ids;
}
