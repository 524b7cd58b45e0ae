#!/usr/bin/env python3
"""What docs/how-to/python.md shows beside the programs."""

import asyncio

import norn


def enqueue(client: norn.Client, addresses: list[str]) -> norn.Receipt:
    receipt = client.enqueue("mail", "ada@example.com", kind="send-welcome", tags=["vip"], delay=5, max_attempts=3)
    specs = [client.spec("mail", address) for address in addresses]
    for result in client.enqueue_many(specs):
        if isinstance(result, norn.Error):
            print("not taken:", result)
    return receipt


async def many(addresses: list[str]) -> None:
    async with norn.AsyncClient() as client:
        receipts = await asyncio.gather(*(client.enqueue("mail", address) for address in addresses))
        async for task in client.list("mail"):
            print(task.id, task.state.name)
    assert len(receipts) == len(addresses)


def secured() -> norn.Client:
    client = norn.Client(
        "n1.example:7711", "n2.example:7711", "n3.example:7711",
        tls=norn.tls_context(ca="ca.pem"), auth_token=lambda: open("/run/secrets/norn").read().strip())
    return client


if __name__ == "__main__":
    with norn.Client() as client:
        enqueue(client, ["eve@example.com"])
    asyncio.run(many(["bob@example.com", "kim@example.com"]))
