// IDs of tasks: docs/reference/protocol.md, IDs.

import { randomBytes } from "node:crypto";

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const EPOCH = 1_400_000_000n;

declare const mark: unique symbol;

/** The ID of a task: its text of 27 characters, which sorts by time and fits JSON. {@link taskID} makes one. */
export type TaskID = string & { readonly [mark]: true };

/** Makes an ID of its text or of its 20 bytes. What is none is a RangeError. */
export function taskID(value: string | Uint8Array): TaskID {
  if (typeof value === "string") {
    taskIDBytes(value);
    return value as TaskID;
  }
  if (value.length !== 20) throw new RangeError(`an ID has 20 bytes, not ${value.length}`);
  let n = BigInt("0x" + Buffer.from(value).toString("hex"));
  let text = "";
  for (let i = 0; i < 27; i++) {
    text = DIGITS[Number(n % 62n)] + text;
    n /= 62n;
  }
  return text as TaskID;
}

/** The 20 bytes of an ID, as they travel on the wire. */
export function taskIDBytes(text: string): Uint8Array {
  let n = 0n;
  for (const c of text) {
    const digit = DIGITS.indexOf(c);
    if (digit < 0) throw new RangeError(`${JSON.stringify(c)} is no character of an ID`);
    n = n * 62n + BigInt(digit);
  }
  if (text.length !== 27 || n >> 160n) throw new RangeError(`${JSON.stringify(text)} is not an ID`);
  return Uint8Array.from(Buffer.from(n.toString(16).padStart(40, "0"), "hex"));
}

/** Makes IDs of tasks, each after the one before it. */
export class Generator {
  #last = 0n;
  #generator = randomBytes(4);

  /** The 20 bytes of the next ID, at a wall time in ns since 1970. */
  next(now: bigint = BigInt(Date.now()) * 1_000_000n): Uint8Array {
    if (this.#last - now > 1_000_000_000n) {
      // The clock was set back: servers would refuse IDs of the future.
      this.#last = 0n;
      this.#generator = randomBytes(4);
    }
    this.#last = now > this.#last ? now : this.#last + 1n;
    const id = Buffer.alloc(20);
    id.writeUInt32BE(Number(this.#last / 1_000_000_000n - EPOCH), 0);
    id.writeUInt32BE((Number(this.#last % 1_000_000_000n) << 2) >>> 0, 4);
    this.#generator.copy(id, 8);
    randomBytes(8).copy(id, 12);
    return Uint8Array.from(id);
  }
}

const [P1, P2, P3, P4, P5] = [
  0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n, 0x85ebca77c2b2ae63n, 0x27d4eb2f165667c5n,
] as const;
const low = (x: bigint): bigint => BigInt.asUintN(64, x);
const rotate = (x: bigint, n: bigint): bigint => low((x << n) | (x >> (64n - n)));

/** The partition of an ID: xxhash64 with seed 0, of exactly 20 bytes, modulo their number. */
export function partitionOf(id: Uint8Array, partitions: number): number {
  const view = Buffer.from(id);
  let h = low(P5 + 20n);
  for (const lane of [view.readBigUInt64LE(0), view.readBigUInt64LE(8)]) {
    h ^= low(rotate(low(lane * P2), 31n) * P1);
    h = low(rotate(h, 27n) * P1 + P4);
  }
  h = low(rotate(h ^ low(BigInt(view.readUInt32LE(16)) * P1), 23n) * P2 + P3);
  h = low((h ^ (h >> 33n)) * P2);
  h = low((h ^ (h >> 29n)) * P3);
  return Number((h ^ (h >> 32n)) % BigInt(partitions));
}
