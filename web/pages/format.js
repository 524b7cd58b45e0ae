// Values as people read them.

export const num = (v) => Number(v || 0);
export const count = (v) => num(v).toLocaleString("en");

// span writes seconds as a duration of at most two units.
export function span(seconds) {
  const s = Math.abs(seconds), sign = seconds < 0 ? "-" : "";
  if (s < 1) return sign + Math.round(s * 1000) + " ms";
  if (s < 10) return sign + s.toFixed(1) + " s";
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  let rest = Math.round(s);
  const parts = [];
  for (const [n, u] of units) {
    if (rest >= n && parts.length < 2) {
      parts.push(Math.floor(rest / n) + u);
      rest %= n;
    } else if (parts.length === 1) break;
  }
  return sign + parts.join(" ");
}

// since and until are spans between now and a time of the API; "" for none.
export const since = (t) => (t ? span((Date.now() - Date.parse(t)) / 1000) + " ago" : "");
export const until = (t) => {
  if (!t) return "";
  const s = (Date.parse(t) - Date.now()) / 1000;
  return s >= 0 ? "in " + span(s) : span(-s) + " ago";
};

// clock writes a time of the API in the zone of the browser.
export const clock = (t) => (t ? new Date(t).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "");

export function size(bytes) {
  let n = num(bytes), i = 0;
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i ? n.toFixed(1) : n) + " " + units[i];
}

export function bytesOf(base64) {
  const raw = atob(base64 || ""), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/;

// textOf gives bytes as a text, or null when they are none. A line of output may have
// control characters, as those for colours, a payload that has some is none.
export function textOf(bytes, line = false) {
  try {
    const s = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return !line && controls.test(s) ? null : s;
  } catch {
    return null;
  }
}

// show gives bytes as people want to see them: JSON with indents, text, or hex; no more
// than `most` bytes of them.
export function show(base64, most = 64 << 10) {
  const all = bytesOf(base64), cut = all.subarray(0, most);
  const more = all.length > most ? `\n… ${size(all.length - most)} more` : "";
  const text = all.length > most ? textOf(cut.subarray(0, whole(cut))) : textOf(all);
  if (text === null) return { kind: "bytes", text: hex(cut.subarray(0, 4096)) + (all.length > 4096 ? `\n… ${size(all.length - 4096)} more` : ""), size: all.length };
  if (!more && isJSON(text)) return { kind: "JSON", text: indent(text), size: all.length };
  return { kind: "text", text: text + more, size: all.length };
}

function isJSON(text) {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// indent sets JSON in lines. It changes the space between its words alone: numbers of many
// digits, and names that come twice, are shown as they are.
function indent(json) {
  let out = "", depth = 0, quoted = false;
  const line = () => "\n" + "  ".repeat(depth);
  for (let i = 0; i < json.length; i++) {
    const c = json[i];
    if (quoted) {
      out += c;
      if (c === "\\") out += json[++i];
      else if (c === '"') quoted = false;
    } else if (c === '"') {
      out += c;
      quoted = true;
    } else if (c === "{" || c === "[") {
      const empty = /^\s*[}\]]/.exec(json.slice(i + 1, i + 100));
      if (empty) {
        out += c + empty[0].trim();
        i += empty[0].length;
      } else {
        depth++;
        out += c + line();
      }
    } else if (c === "}" || c === "]") {
      depth--;
      out += line() + c;
    } else if (c === ",") out += c + line();
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}

// whole is how many of the first bytes end with a whole character.
function whole(bytes) {
  let n = bytes.length;
  while (n > 0 && n > bytes.length - 4 && (bytes[n - 1] & 0xc0) === 0x80) n--;
  return n > 0 && bytes[n - 1] >= 0xc0 ? n - 1 : n;
}

function hex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const text = row.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : ".")).join("");
    lines.push(at.toString(16).padStart(8, "0") + "  " + row.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(47) + "  " + text);
  }
  return lines.join("\n");
}

// brief is a payload in one line of a table.
export function brief(base64, most = 80) {
  const head = bytesOf((base64 || "").slice(0, 4 * most));
  const text = textOf(head.subarray(0, whole(head)));
  const line = text === null ? size((base64 || "").length * 3 / 4 | 0) + " of binary data" : text.replace(/\s+/g, " ");
  return line.length > most ? line.slice(0, most) + "…" : line;
}

// errorOf splits the error of a task: what it says, and the stack of a panic.
export function errorOf(text) {
  const at = (text || "").indexOf("\n\ngoroutine ");
  return at < 0 ? { message: text || "", stack: "" } : { message: text.slice(0, at), stack: text.slice(at + 2) };
}
