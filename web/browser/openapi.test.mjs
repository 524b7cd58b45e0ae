// /openapi.json as programs read it that make clients: it is linted, and a client in
// TypeScript is generated from it and type-checked against a program that uses it.
//
//   make api          (needs node and npm)
//
// NORN is the binary.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const limit = 60_000; // until the node is ready
let dir, node, text;

const port = () => new Promise((yes) => {
  const s = createServer().listen(0, "127.0.0.1", () => { const p = s.address().port; s.close(() => yes(p)); });
});

before(async () => {
  dir = await mkdtemp(join(tmpdir(), "norn-api-"));
  const [client, peer, http] = await Promise.all([port(), port(), port()]);
  node = spawn(process.env.NORN || "norn", ["server", "--data", join(dir, "data"), "--listen", `127.0.0.1:${client}`,
    "--peer-listen", `127.0.0.1:${peer}`, "--http-listen", `127.0.0.1:${http}`], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  node.stderr.on("data", (d) => { said += d; });
  for (const until = Date.now() + limit; text === undefined;) {
    assert.ok(Date.now() < until && node.exitCode === null, "the node is not there: " + said);
    try {
      text = await (await fetch(`http://127.0.0.1:${http}/openapi.json`)).text();
    } catch {
      await new Promise((yes) => setTimeout(yes, 100));
    }
  }
});

after(async () => {
  if (node?.exitCode === null) await new Promise((yes) => { node.once("exit", yes); node.kill("SIGTERM"); });
  await rm(dir, { recursive: true, force: true });
});

test("the linter has nothing to say", async () => {
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source: text, absoluteRef: "/openapi.json", config });
  assert.deepEqual(problems.map((p) => `${p.severity} ${p.ruleId}: ${p.message} at ${p.location?.[0]?.pointer}`), []);
});

test("a client in TypeScript is made and holds what is right and not what is wrong", async () => {
  const types = join(dir, "norn.d.ts");
  await writeFile(types, astToString(await openapiTS(text)));
  const check = async (name, program) => {
    const file = join(dir, name);
    await writeFile(file, program);
    const made = ts.createProgram([file], { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [], lib: ["lib.es2022.d.ts"] });
    return ts.getPreEmitDiagnostics(made).map((d) => ts.flattenDiagnosticMessageText(d.messageText, "\n"));
  };
  const begin = `import type { paths, components } from "./norn";
type Enqueue = paths["/api/v1/tasks"]["post"];
type Problem = Enqueue["responses"]["409"]["content"]["application/problem+json"];
type Fail = components["schemas"]["Failure"];
`;
  assert.deepEqual(await check("good.ts", begin + `
const request: Enqueue["requestBody"]["content"]["application/json"] = { tasks: [{ queue: "mail", payload: "aGVsbG8=", priority: 5 }, { queue: "mail", payload_json: { to: 7 }, delay_seconds: 60 }] };
export function shown(t: components["schemas"]["Task"]): string { return t.payload_text ?? "(bytes)"; }
export function told(p: Problem): string { return p.title + p.status.toFixed() + p.detail + p.error.message; }
export const fail: Fail = { id: "x", token: "1", error: "why" };
export default request;
`), []);
  assert.ok((await check("bad.ts", begin + `
export const request: Enqueue["requestBody"]["content"]["application/json"] = { tasks: [{ queue: 7 }] };
`)).length > 0, "a wrong program is taken");
});
