// The client of the HTTP API, and the examples.

import { readFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";
import { describe, expect, test, vi } from "vitest";

import { byHand, enqueue, overHTTP, secured } from "../examples/pages.js";
import { httpClient } from "../src/http.js";
import { Client } from "../src/index.js";

const http = process.env["NORN_HTTP"];

describe.skipIf(!http)("HTTP", () => {
  test("its types are those of /openapi.json", async () => {
    const made = astToString(await openapiTS(new URL(`${http}/openapi.json`)));
    const committed = readFileSync(new URL("../src/http-types.ts", import.meta.url), "utf8");
    expect(committed.includes(made.trim()), "src/http-types.ts is not what /openapi.json gives: npm run types").toBe(true);
  });

  test("it reads what was enqueued", async () => {
    const client = new Client();
    const queue = `http-${process.pid}`;
    const { id } = await client.enqueue({ queue, payload: "x" });
    await client.close();
    const api = httpClient({ baseUrl: http as string, authToken: "whatever" });
    const { data, error } = await api.GET("/api/v1/tasks/{name}", { params: { path: { name: id } } });
    expect(error).toBeUndefined();
    expect(data).toMatchObject({ task: { id, queue } });
    expect((await api.GET("/api/v1/tasks/{name}", { params: { path: { name: "nonsense" } } })).response.status).toBe(400);
    expect(await overHTTP(http as string)).toContain(queue);
  });
});

describe("examples", () => {
  test("first-task", async () => {
    const said = vi.spyOn(console, "log").mockReturnValue();
    await import("../examples/first-task.js");
    expect(said).toHaveBeenCalledWith("Hello, Ada!");
    said.mockRestore();
  });

  test("pages", async () => {
    const client = new Client();
    expect(await enqueue(client, ["eve@example.com", "bob@example.com"])).toBe(3);
    await byHand(client);
    expect((await client.count("mail")).completed).toBeGreaterThanOrEqual(1n);
    await client.close();
    await secured().close();
  });
});
