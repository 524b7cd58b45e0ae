// What docs/how-to/typescript.md shows beside the programs.

import { readFile } from "node:fs/promises";

import { Client, NornError } from "norn-queue";
import { httpClient } from "norn-queue/http";

export async function enqueue(client: Client, addresses: string[]): Promise<number> {
  const receipt = await client.enqueue({
    queue: "mail", payload: "ada@example.com", kind: "send-welcome", tags: ["vip"], delay: 5, maxAttempts: 3,
  });
  const results = await client.enqueueMany(addresses.map((payload) => ({ queue: "mail", payload })));
  for (const r of results) if (r instanceof NornError) console.log("not taken:", r.message);
  return results.length + Number(receipt.id !== "");
}

export async function byHand(client: Client): Promise<void> {
  const [claim] = await client.claim(["mail"], { wait: 20, lease: 60, signal: AbortSignal.timeout(30_000) });
  if (claim) {
    const next = await client.work({ completions: [{ claim, result: "sent" }], want: { queues: ["mail"] } });
    await client.release(next.claims);
  }
}

export function secured(): Client {
  return new Client({
    addresses: ["n1.example:7711", "n2.example:7711", "n3.example:7711"],
    tls: { ca: "…" },
    authToken: async () => (await readFile("/run/secrets/norn", "utf8")).trim(),
  });
}

export async function overHTTP(baseUrl: string): Promise<string[]> {
  const api = httpClient({ baseUrl });
  const { data, error } = await api.GET("/api/v1/queues");
  if (error) throw new Error(error.error.message);
  return (data.queues ?? []).map((q) => q.name ?? "");
}
