#!/usr/bin/env python3
"""Runs a command for every task of some queues: a pull worker.

It asks for tasks with claims that wait, over a plain connection. It has no
session: the server does not know that it is there, sends it nothing unasked
and cannot call back a task. That a task was cancelled, or that its claim is
lost, it learns when it renews; all claims that it holds are renewed by one
request, at a third of the lease.

What it does for a command is what `norn work` does. The payload is on standard
input; NORN_TASK_ID, NORN_TOKEN, NORN_QUEUE, NORN_KIND, NORN_TAGS (one per line) and
NORN_ATTEMPT are in the environment, and NORN_CHECKPOINT_FILE names a file with the last update of
earlier claims. Each line of standard output becomes an update. Exit status 0
completes the task, 75 puts it off without using an attempt, any other fails it
with the end of standard error. A command whose claim is lost, or about to end,
gets SIGTERM and then SIGKILL, with its whole process group: somebody else may
have the task then.

The first Ctrl-C (or SIGTERM) finishes what runs and takes nothing new; the
second ends what runs and gives the tasks back. What is done and cannot be
reported, as no node is in reach, is reported for 15 minutes; the third ends
that, and the tasks are run again.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import norn

STOP = 0.1  # share of the lease for each of SIGTERM and SIGKILL to take effect
PUT_OFF = 75  # exit status: not now
LATER = 5.0  # seconds until a task that was put off is tried again
TAIL = 4 << 10  # bytes of an error
LINE = 64 << 10  # bytes after which a line is split
SETTLE = 900  # seconds for which a report is repeated
GONE = ("CLAIM_LOST", "NOT_FOUND", "CANCELLED")  # what a renewal says of a claim that is over
HOPELESS = ("INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "INCOMPATIBLE")  # it will not get better


def note(*words):
    print("worker:", *words, file=sys.stderr, flush=True)


class Run:
    """One claim, and the command that runs for it."""

    def __init__(self, worker, claim):
        self.worker, self.claim = worker, claim
        self.client = worker.client
        self.lost = None  # why the claim is gone; nothing is said about the task any more
        self.writing = False  # an update is under way
        self.told = False  # it was said what came of the task
        self.next = []  # claims that came with the completion
        self.process = None

    def left(self):
        """Seconds until the command must be told to end."""
        return self.claim.left() - 2 * STOP * self.claim.lease

    def reason(self):
        """Why the command must end, or None."""
        # The clock is asked each time: a process that was frozen must find out before it does anything else.
        if not self.lost and self.left() <= 0:
            self.lost = "the claim could not be renewed in time"
        return self.lost or ("stopped" if self.worker.aborting.is_set() else None)

    def run(self):
        """Runs the command and says what came of it. What is wrong with this machine, a full disk for one, fails the task: a
        slot must not end over it, with a claim that nobody renews."""
        try:
            self.execute()
        except Exception as e:
            note("task %s: %s: %s" % (self.claim.task.id, type(e).__name__, e))
            if self.told:
                return
            self.settle(lambda: self.client.fail(self.claim, "the command cannot be run: %s" % e, timeout=SETTLE))

    def execute(self):
        with tempfile.TemporaryDirectory() as home, open(os.path.join(home, "payload"), "w+b") as stdin, open(os.path.join(home, "err"), "w+b") as err:
            stdin.write(self.claim.task.payload)
            stdin.seek(0)
            checkpoint = os.path.join(home, "checkpoint")
            with open(checkpoint, "wb") as f:
                f.write(self.claim.checkpoint)
            env = dict(
                os.environ, NORN_TASK_ID=self.claim.task.id, NORN_TOKEN=str(self.claim.token), NORN_QUEUE=self.claim.task.queue,
                NORN_KIND=self.claim.task.kind, NORN_TAGS="\n".join(self.claim.task.tags), NORN_ATTEMPT=str(self.claim.task.attempts + 1),
                NORN_CHECKPOINT_FILE=checkpoint)
            process = self.process = subprocess.Popen(
                self.worker.args.command, stdin=stdin, stdout=subprocess.PIPE, stderr=err, env=env, start_new_session=True)
            try:
                why = self.attend(process)
            finally:
                if process.poll() is None:  # it must not go on while the task is given to somebody else
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if self.lost and (why or process.returncode):
                note("task %s lost: %s" % (self.claim.task.id, self.lost))
            elif why:
                note("task %s given back: %s" % (self.claim.task.id, why))
                self.settle(self.give_back)
            else:  # work that is done counts, however late
                self.settle(lambda: self.conclude(process.returncode, err))

    def attend(self, process):
        """Sees a command to its end, and its output into updates. Gives the reason why it was made to end, or None."""
        reader = threading.Thread(target=self.read, args=(process.stdout,), daemon=True)
        reader.start()
        why = self.watch(process)
        reader.join(1)  # a process in the background may hold the output open
        while self.writing and reader.is_alive():
            reader.join(0.1)
        if not reader.is_alive():
            process.stdout.close()
        return why

    def watch(self, process):
        """Waits for the end of the command. Gives the reason why it was made to end, or None."""
        while True:
            try:
                process.wait(min(0.2, max(0.01, self.left())))
                return None
            except subprocess.TimeoutExpired:
                why = self.reason()
            if why:
                break
        for s in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, s)
                process.wait(STOP * self.claim.lease)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
            except OSError as e:
                note("task %s: the command cannot be told to end: %s" % (self.claim.task.id, e))
        process.wait()
        return why

    def kill(self):
        """Ends the command at once."""
        try:
            if self.process and self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended

    def read(self, out):
        """Makes updates of the lines of a command."""
        for line in iter(lambda: out.readline(LINE), b""):
            self.writing = True
            self.write(line[:-1] if line.endswith(b"\n") else line)
            self.writing = False

    def write(self, line):
        """Makes an update, and repeats it until it is acknowledged or the claim is over."""
        while not (self.lost or self.claim.left() <= 0):
            try:
                self.client.update(self.claim, line, timeout=max(0.1, min(5, self.claim.left())))
                return
            except norn.Error as e:
                if e.name == "CLAIM_LOST":
                    self.lost = str(e)
                elif not e.unknown and not e.again:
                    note("task %s: a line of output is no update: %s" % (self.claim.task.id, e))
                    return
                self.worker.ended.wait(0.1)  # the call may have ended at once

    def conclude(self, code, err):
        """Says how the command has ended."""
        if code == 0:
            self.next = self.worker.complete(self.claim)
            return
        err.seek(max(0, err.seek(0, os.SEEK_END) - TAIL))
        text = "exit status %d: %s" % (code, err.read().decode("utf-8", "replace").strip())
        if code == PUT_OFF:
            self.client.fail(self.claim, text, retry_in=LATER, uncounted=True, timeout=SETTLE)
        else:
            self.client.fail(self.claim, text, timeout=SETTLE)

    def give_back(self):
        for result in self.client.release([self.claim], timeout=max(0.1, self.claim.left())):
            if isinstance(result, norn.Error):
                raise result

    def settle(self, say):
        """Says something about a claim that may be lost already; say repeats itself until it is heard."""
        self.told = True
        try:
            say()
        except norn.Error as e:
            note("task %s: %s" % (self.claim.task.id, e))


class Worker:
    """Slots that claim, run and settle one task after the other, and one renewal for all of them."""

    def __init__(self, client, args):
        self.client, self.args = client, args
        self.ending, self.aborting, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.refused = None  # why there is no sense in going on
        self.lock, self.runs = threading.Lock(), set()

    def slot(self):
        """Claims and runs tasks until the worker ends."""
        try:
            self.take()
        except Exception as e:  # a worker with fewer slots than it says would be hard to notice
            self.refused = "%s: %s" % (type(e).__name__, e)
            self.ending.set()
            raise
        finally:
            try:
                self.client.free_unanswered()
            except norn.Error as e:
                note("tasks may have been granted on the way out, their claims will lapse: %s" % e)

    def take(self):
        while not self.ending.is_set():
            try:
                claims = self.client.claim(self.args.queue, lease=self.args.lease, wait=self.args.wait, worker=self.args.name)
            except norn.Error as e:
                if e.name == "CANCELLED":
                    return
                if e.name in HOPELESS:
                    self.refused = str(e)
                    self.ending.set()
                    return
                note(e)
                self.ending.wait(1)
                continue  # which frees what was granted meanwhile
            while claims:
                run = Run(self, claims.pop(0))
                self.handle(run)
                if self.ending.is_set():
                    self.client.release(run.next)
                else:
                    claims += run.next

    def complete(self, claim):
        """Completes a task and claims the next one in the same request."""
        results, claims, _ = self.client.work([(claim, b"")], self.args.queue, lease=self.args.lease, worker=self.args.name, timeout=SETTLE)
        if isinstance(results[0], norn.Error):
            note("task %s: %s" % (claim.task.id, results[0]))
        return claims

    def handle(self, run):
        with self.lock:
            self.runs.add(run)
        try:
            run.run()
        finally:
            with self.lock:
                self.runs.discard(run)

    def heartbeat(self):
        """Renews every claim by one request, at a third of the lease or a little earlier: workers must not march in step."""
        every = self.args.lease / 3
        pause = every
        while not self.ended.wait(pause * random.uniform(0.9, 1)):
            with self.lock:
                runs = [r for r in self.runs if not r.lost and r.claim.left() > 0]
            # A renewal that failed is made again at once, at another node: to wait as long again would be too late.
            pause = every if self.renew(runs, every / 2) else min(1, every / 10)

    def renew(self, runs, timeout):
        """Renews claims, and tells whether it is known of each what has become of it."""
        try:
            results = self.client.renew([r.claim for r in runs], timeout=timeout)
        except Exception as e:  # whatever it is: without renewals all that runs here is lost
            note("%d claims could not be renewed, trying again: %s" % (len(runs), e))
            return False
        known = True
        for run, error in zip(runs, results):
            if error and (error.name in GONE or error.state == norn.State.CANCELLED):
                run.lost = str(error)
            elif error:
                known = False
                note("task %s could not be renewed, trying again: %s" % (run.claim.task.id, error))
        return known

    def run(self):
        """Runs until a signal ends it."""
        slots = [threading.Thread(target=self.slot) for _ in range(self.args.slots)]
        heartbeat = threading.Thread(target=self.heartbeat)

        def interrupt(*_):
            if self.aborting.is_set():
                note("ended; what was not reported is run again")
                for run in list(self.runs):  # without the lock, which this thread may hold
                    run.kill()
                os._exit(1)
            (self.aborting if self.ending.is_set() else self.ending).set()

        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, interrupt)
        for thread in slots + [heartbeat]:
            thread.start()
        while any(slot.is_alive() for slot in slots) and not self.ending.wait(0.2):
            pass
        self.client.stop_claiming()
        for slot in slots:
            slot.join()
        self.ended.set()
        heartbeat.join()
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
