#!/usr/bin/env python3
"""Adds a task, has a worker greet it, and shows the result."""

import norn

with norn.Client() as client:  # NORN_ADDR, or 127.0.0.1:7711
    worker = norn.Worker(client, slots=4)

    @worker.handle("greetings")
    def greet(job: norn.Job) -> str:
        return "Hello, %s!" % job.payload.decode()

    receipt = client.enqueue("greetings", "Ada")
    with worker:  # until the end of the block; worker.run() goes on until Ctrl-C
        for _ in client.follow(receipt.id):
            pass
    print(client.get(receipt.id).result.decode())
