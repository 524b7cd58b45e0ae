// A worker as a service: checkpoints, retries and an orderly end.

import { Client, Discard, RetryAfter, Worker } from "norn-queue";

const client = new Client();
const worker = new Worker(client, {
  slots: 8,
  queues: {
    async reports(job) {
      const done = Number(new TextDecoder().decode(job.checkpoint)); // where an earlier attempt has got to
      for (let page = done + 1; page <= 3; page++) {
        job.signal.throwIfAborted(); // the claim is over: somebody else may have the task
        await job.update(String(page)); // durable when it returns
      }
      return "3 pages";
    },
  },
  kinds: {
    async "send-welcome"(job) {
      if (!job.text.includes("@")) throw new Discard(`${job.text} is no address`); // no further attempt can help
      if (job.text.endsWith(".example") && job.attempt === 1) throw new RetryAfter(0.1, "the mail server is busy");
    },
  },
});

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
await worker.run({ signal: stop.signal });
await client.close();
