#!/usr/bin/env python3
"""Adds one task per argument, or per line of standard input, and prints the IDs."""

import argparse
import os
import sys

import norn


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("-q", "--queue", required=True)
    p.add_argument("--addr", default=os.environ.get("NORN_ADDR", "127.0.0.1:7711"), help="host:port of nodes, separated by commas")
    p.add_argument("--priority", type=int, default=0, help="higher is claimed first")
    p.add_argument("--delay", type=float, default=0, help="seconds before it may be claimed")
    p.add_argument("--kind", default="", help="what is to be done, beside the queue")
    p.add_argument("--tag", action="append", default=[], help="a word to find the task by; may be repeated")
    p.add_argument("--key", default="", help="unique key: the task is not added while another one has it; one payload only")
    p.add_argument("payload", nargs="*")
    args = p.parse_args()
    payloads = [s.encode() for s in args.payload] or [line.rstrip(b"\n") for line in sys.stdin.buffer]
    with norn.Client(*args.addr.split(","), auth_token=os.environ.get("NORN_AUTH_TOKEN", ""), agent="enqueue.py") as client:
        # The IDs are made here, once: whatever is repeated below is the same task.
        specs = [client.spec(args.queue, payload, priority=args.priority, delay=args.delay, key=args.key, kind=args.kind, tags=args.tag) for payload in payloads]
        results = client.enqueue_many(specs)
    bad = 0
    for result in results:
        if isinstance(result, norn.Error):
            bad += 1
            print("enqueue:", result, file=sys.stderr)
        else:
            print(result.id)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
