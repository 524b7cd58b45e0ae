#!/usr/bin/env python3
"""Runs a command for every task of some queues: a pull worker.

It asks for tasks with a claim that waits, over a plain connection. It has no
session: the server does not know that it is there, sends it nothing unasked
and cannot call back a task. That a task was cancelled, or that its claim is
lost, it learns when it renews, at a third of the lease.

The payload is on standard input; NORN_TASK_ID, NORN_TOKEN and NORN_QUEUE are
in the environment, and where an earlier claim left a checkpoint, NORN_CHECKPOINT
names a file with it. Exit status 0 completes the task with standard output as
its result; 75 puts it off without using an attempt; any other fails it with
the end of standard error. A command that still runs when the claim is about to
end is killed: somebody else may have the task then.

The first Ctrl-C (or SIGTERM) finishes what runs and takes nothing new; the
second kills what runs and gives the tasks back.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import norn

STOP = 0.2  # share of the lease that is left when a command is killed
PUT_OFF = 75  # exit status: not now
LATER = 5.0  # seconds until a task that was put off is tried again
MOST = 1 << 20  # bytes of a result
TAIL = 16 << 10  # bytes of an error


class Worker:
    """Slots that claim, run and settle one task after the other."""

    def __init__(self, client, args):
        self.client, self.args = client, args
        self.ending, self.aborting = threading.Event(), threading.Event()
        self.refused = None  # why there is no sense in going on

    def slot(self):
        """Claims and runs tasks until the worker ends."""
        number = None
        while not self.ending.is_set():
            number = number or self.client.next_claim()
            try:
                claims = self.client.claim(
                    self.args.queue, lease=self.args.lease, wait=self.args.wait, worker=self.args.name, number=number)
            except norn.Error as e:
                if e.kind == norn.errors.ERROR_KIND_CANCELLED:
                    return
                if e.name not in ("UNAVAILABLE", "OVERLOADED", "DEADLINE_EXCEEDED"):
                    self.refused = str(e)  # it will not get better
                    self.ending.set()
                    return
                print("worker:", e, file=sys.stderr)
                self.ending.wait(1)
                continue  # under the same number: what was granted meanwhile is granted again
            number = None
            for claim in claims:
                self.handle(claim)

    def handle(self, claim):
        """Runs the command for one task, and says what came of it."""
        with tempfile.TemporaryDirectory() as home:
            stdin, out, err = (open(os.path.join(home, name), "w+b") for name in ("payload", "out", "err"))
            with stdin, out, err:
                stdin.write(claim.task.payload)
                stdin.seek(0)
                env = dict(os.environ, NORN_TASK_ID=claim.task.id, NORN_TOKEN=str(claim.token), NORN_QUEUE=claim.task.queue)
                if claim.checkpoint:
                    env["NORN_CHECKPOINT"] = os.path.join(home, "checkpoint")
                    with open(env["NORN_CHECKPOINT"], "wb") as f:
                        f.write(claim.checkpoint)
                try:
                    process = subprocess.Popen(self.args.command, stdin=stdin, stdout=out, stderr=err, env=env, start_new_session=True)
                except OSError as e:
                    return self.settle(claim, lambda: self.client.fail(claim, "the command cannot be run: %s" % e))
                code = self.watch(claim, process)
                if code is not None:
                    self.settle(claim, lambda: self.conclude(claim, code, out, err))

    def watch(self, claim, process):
        """Waits for the command, and renews the claim meanwhile. None: it was killed, and there is nothing to say."""
        renew_at = norn.clock() + claim.lease / 3
        while True:
            try:
                return process.wait(min(1, max(0.01, renew_at - norn.clock())))
            except subprocess.TimeoutExpired:
                pass
            left = claim.left() - STOP * claim.lease
            if left > 0 and norn.clock() >= renew_at and not self.aborting.is_set():
                why = self.renew(claim, left)
                renew_at = norn.clock() + min(claim.lease / 3, left / 3)
                if not why:
                    continue
            elif left > 0 and not self.aborting.is_set():
                continue
            else:
                why = "stopped" if self.aborting.is_set() else "the claim could not be renewed in time"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            print("worker: task %s killed: %s" % (claim.task.id, why), file=sys.stderr)
            # Whatever the reason: if the claim still holds, the next worker need not wait for its end.
            self.settle(claim, lambda: self.client.release([claim], timeout=max(0.1, claim.left())))
            return None

    def renew(self, claim, left):
        """Renews a claim within the time that is left. Gives the reason why it is lost, or None."""
        try:
            lost = self.client.renew([claim], timeout=min(left, claim.lease / 3))[0]
        except norn.Error as e:
            print("worker: task %s could not be renewed, trying again: %s" % (claim.task.id, e), file=sys.stderr)
            return None
        return str(lost) if lost else None

    def conclude(self, claim, code, out, err):
        """Says how the command has ended."""
        if code == 0:
            out.seek(0)
            self.client.complete(claim, out.read(MOST))
            return
        err.seek(max(0, err.seek(0, os.SEEK_END) - TAIL))
        text = "exit status %d: %s" % (code, err.read().decode("utf-8", "replace").strip())
        if code == PUT_OFF:
            self.client.fail(claim, text, retry_in=LATER, uncounted=True)
        else:
            self.client.fail(claim, text)

    def settle(self, claim, say):
        """Says something about a claim that may be lost already."""
        try:
            say()
        except norn.Error as e:
            print("worker: task %s: %s" % (claim.task.id, e), file=sys.stderr)

    def run(self):
        """Runs until a signal ends it."""
        slots = [threading.Thread(target=self.slot) for _ in range(self.args.slots)]

        def interrupt(*_):
            (self.aborting if self.ending.is_set() else self.ending).set()

        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, interrupt)
        for slot in slots:
            slot.start()
        while any(slot.is_alive() for slot in slots) and not self.ending.wait(0.2):
            pass
        self.client.stop_claiming()
        for slot in slots:
            slot.join()
        return "worker: " + self.refused if self.refused else None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-q", "--queue", action="append", required=True, help="queue to take tasks from; may be repeated")
    p.add_argument("--addr", default=os.environ.get("NORN_ADDR", "127.0.0.1:7711"), help="host:port of nodes, separated by commas")
    p.add_argument("--slots", type=int, default=1, help="commands at once (default 1)")
    p.add_argument("--lease", type=float, default=30, help="seconds of a claim; renewed at a third of it (default 30)")
    p.add_argument("--wait", type=float, default=20, help="seconds that a claim waits for a task (default 20)")
    p.add_argument("--name", default="%s/%d" % (socket.gethostname(), os.getpid()), help="shown in the claims of tasks")
    p.add_argument("command", nargs="+", help="what to run, after --")
    args = p.parse_args()
    with norn.Client(*args.addr.split(","), auth_token=os.environ.get("NORN_AUTH_TOKEN", ""), agent="worker.py") as client:
        sys.exit(Worker(client, args).run())


if __name__ == "__main__":
    main()
