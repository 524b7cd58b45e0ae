// IDs of tasks (docs/reference/protocol.md, IDs): a KSUID, whose time has nanoseconds as well.

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const epoch = 1_400_000_000; // seconds; where the time of a KSUID begins

// newID makes the ID of a task (kind 0) of now: 27 characters. The API takes the same
// request again under it without doing it twice.
export function newID(now = Date.now()) {
  const bytes = crypto.getRandomValues(new Uint8Array(20)), view = new DataView(bytes.buffer);
  view.setUint32(0, Math.floor(now / 1000) - epoch);
  const nanos = (now % 1000) * 1e6 + (view.getUint32(4) % 1e6); // the browser's clock has milliseconds: below them it is chance
  view.setUint32(4, Math.floor(nanos) * 4);
  let n = 0n, text = "";
  for (const b of bytes) n = (n << 8n) | BigInt(b);
  for (let i = 0; i < 27; i++) {
    text = letters[Number(n % 62n)] + text;
    n /= 62n;
  }
  return text;
}
