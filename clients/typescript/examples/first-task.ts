// Adds a task, has a worker greet it, and shows the result.

import { Client, Worker } from "norn-queue";

const client = new Client(); // NORN_ADDR, or 127.0.0.1:7711
const worker = new Worker(client, {
  queues: { greetings: (job) => `Hello, ${job.text}!` },
  slots: 4,
});
const { id } = await client.enqueue({ queue: "greetings", payload: "Ada" });
const running = worker.run(); // until worker.stop(), or an AbortSignal
for await (const _ of client.follow(id));
await worker.stop();
await running;
const { result } = await client.get(id);
console.log(new TextDecoder().decode(result));
await client.close();
