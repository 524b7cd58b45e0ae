#!/usr/bin/env python3
"""A worker as a service: functions and coroutines, checkpoints, retries and an orderly end."""

import asyncio

import norn

client = norn.Client()
worker = norn.Worker(client, slots=8, lease=30)


@worker.handle("reports")
def report(job: norn.Job) -> bytes:
    done = int(job.checkpoint or b"0")  # where an earlier attempt has got to
    for page in range(done + 1, 4):
        job.check()  # raises when the claim is over: somebody else may have the task
        job.update(str(page))  # durable when it returns
    return b"3 pages"


@worker.handle(kind="send-welcome")
async def send_welcome(job: norn.Job) -> None:
    address = job.payload.decode()
    if "@" not in address:
        raise norn.Discard("%r is no address" % address)  # no further attempt can help
    if address.endswith(".example") and job.attempt == 1:
        raise norn.RetryAfter(0.1, "the mail server is busy")
    await asyncio.sleep(0.01)


if __name__ == "__main__":
    worker.run()  # Ctrl-C lets what runs finish, a second one gives it back
