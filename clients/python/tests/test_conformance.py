"""The list of what every client does: clients/conformance."""

import json
import os
import subprocess
import threading
import time
import unittest

import norn
from harness import ADDR, HERE, PATIENCE, queue
from norn import ids

LIAR = os.environ.get("NORN_LIAR")
try:
    import yaml
except ImportError:
    yaml = None


def cases():
    if not yaml:
        return []
    with open(os.path.join(HERE, "..", "conformance", "cases.yaml"), encoding="utf-8") as f:
        return yaml.safe_load(f)["cases"]


class Liar:
    """The program that lies, for all cases of a run."""

    def __init__(self):
        self.process = subprocess.Popen([LIAR, "-to", ADDR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise AssertionError(answer["error"])
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


def fits(want, got, at=""):
    """Compares what was wanted with what came, as README.md says. Gives what is wrong, or None."""
    if isinstance(want, dict):
        if "contains" in want:
            return None if str(want["contains"]) in str(got) else "%s: %r does not contain %r" % (at, got, want["contains"])
        if "over" in want or "under" in want:
            good = got is not None and want.get("over", got - 1) < got < want.get("under", got + 1)
            return None if good else "%s: %r is not within %r" % (at, got, want)
        if not isinstance(got, dict):
            return "%s: %r has no members" % (at, got)
        for name, w in want.items():
            if name not in got and w == 0 and w is not False:
                continue
            wrong = fits(w, got.get(name), at + "." + name)
            if wrong:
                return "%s (all of it: %r)" % (wrong, got)
        return None
    if isinstance(want, list):
        if not isinstance(got, list):
            return None if any(fits(w, got) is None for w in want) else "%s: %r is none of %r" % (at, got, want)
        if len(want) != len(got):
            return "%s: %r is not %r" % (at, got, want)
        return next(filter(None, (fits(w, g, "%s[%d]" % (at, i)) for i, (w, g) in enumerate(zip(want, got)))), None)
    return None if want == got else "%s: it is %r, not %r" % (at, got, want)


class Run:
    """One case that runs."""

    def __init__(self, case, liar):
        self.queue, self.liar, self.addr = queue(), liar, None
        if "liar" in case:
            self.addr = liar.ask(rules=case["liar"] or [])["addr"]
        self.clients = {"server": norn.Client(ADDR), None: norn.Client(self.addr or ADDR)}
        self.tasks, self.claims = {}, {}

    def close(self):
        for client in self.clients.values():
            client.close()
        if self.addr:
            self.liar.ask(close=self.addr)

    def step(self, step):
        want = step.get("want") or {}
        client = self.clients[step.get("via")]
        with_ = step.get("with") or {}
        client.timeout = step.get("timeout", 30)
        try:
            got = getattr(self, "do_" + step["do"])(client, step.get("as"), **with_)
        except norn.Error as e:
            if "error" not in want:
                raise
            got = {"error": e.name, "unknown": e.unknown, "state": norn.State(e.state).name}
        except ValueError:
            got = {"error": "INVALID_ARGUMENT", "unknown": False}
        return fits(want, got)

    @staticmethod
    def of(result):
        if isinstance(result, norn.Error):
            return {"error": result.name, "unknown": result.unknown, "state": norn.State(result.state).name}
        return {"existed": result.existed, "state": result.state.name}

    def one(self, results):
        if isinstance(results[0], norn.Error):
            raise results[0]
        return self.of(results[0])

    def fields(self, queue=None, size=0, dependencies=(), payload="", **fields):
        return dict(
            fields, queue=queue or self.queue, payload=b"x" * size or payload, dependencies=[self.tasks[d] for d in dependencies])

    def do_id(self, client, name, text, partitions):
        task = norn.TaskID(text)
        return {"hex": task.raw.hex(), "text": str(task), "partition": ids.partition_of(task.raw, partitions)}

    def do_enqueue(self, client, name, **fields):
        receipt = client.enqueue(**self.fields(**fields))
        self.tasks[name] = receipt.id
        return {"existed": receipt.existed}

    def do_enqueue_many(self, client, name, tasks):
        return {"results": [self.of(r) for r in client.enqueue_many([client.spec(**self.fields(**t)) for t in tasks])]}

    def granted(self, name, claims):
        self.claims[name] = claims
        out = {"claims": len(claims), "payloads": [c.task.payload.decode() for c in claims], "checkpoints": [c.checkpoint.decode() for c in claims]}
        if claims:
            out["left"] = claims[0].left()
        return out

    def do_claim(self, client, name, max=1, lease=0, wait=0):
        return self.granted(name, client.claim([self.queue], max, lease, wait, "conformance"))

    def do_renew(self, client, name, claim, lease=0):
        claim, = self.claims[claim]
        e, = client.renew([claim], lease)
        if e:
            raise e
        return {"left": claim.left()}

    def do_update(self, client, name, claim, data):
        return {"existed": client.update(self.claims[claim][0], data.encode()).existed}

    def do_complete(self, client, name, claim, result=""):
        return {"existed": client.complete(self.claims[claim][0], result.encode()).existed}

    def do_fail(self, client, name, claim, **how):
        return {"state": client.fail(self.claims[claim][0], **how).name}

    def do_release(self, client, name, claim):
        return self.one(client.release(self.claims[claim][:1]))

    def do_work(self, client, name, claim, result):
        results, claims, e = client.work([(self.claims[claim][0], result.encode())], [self.queue], worker="conformance")
        if e:
            raise e
        return dict(self.granted(name, claims), completed=[self.of(r) for r in results])

    def do_get(self, client, name, task=None, text=None):
        t = client.get(text or self.tasks[task])
        return {
            "state": t.state.name, "payload": t.payload.decode(), "size": len(t.payload), "attempts": t.attempts, "result": t.result.decode(),
            "error": t.error, "updates": [u.data.decode() for u in t.updates], "kind": t.kind, "tags": list(t.tags), "headers": t.headers,
            "priority": t.priority, "max_attempts": t.max_attempts, "claims": len(t.claims)}

    def do_cancel(self, client, name, task, reason=""):
        return self.one(client.cancel([self.tasks[task]], reason))

    def do_retry(self, client, name, task):
        return self.one(client.retry([self.tasks[task]]))

    def do_count(self, client, name):
        n = client.count(self.queue).total
        return {f: getattr(n, f) for f in ("waiting", "scheduled", "ready", "claimed", "completed", "dead", "cancelled", "total")}

    def do_seen(self, client, name):
        return self.liar.ask(seen=self.addr)["seen"]

    def do_worker(self, client, name, handler, until, slots=1, lease=30, seconds=0):
        def checkpoint(job):
            if job.checkpoint:
                return job.checkpoint
            job.update("page 1")
            raise norn.RetryAfter(0.01)

        def slow(job):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                job.check()
                time.sleep(0.02)

        def raises(e):
            def handle(job):
                raise e
            return handle

        worker = norn.Worker(client, slots=slots, lease=lease)
        worker.handle(self.queue)({
            "echo": lambda job: job.payload, "fail": raises(RuntimeError("boom")), "discard": raises(norn.Discard("hopeless")),
            "put-off": raises(norn.Snooze(600)), "slow": slow, "checkpoint": checkpoint}[handler])
        end = time.monotonic() + PATIENCE
        with worker:
            while True:
                wrong = fits(until, self.do_count(self.clients["server"], None))
                if not wrong:
                    break
                if time.monotonic() > end:
                    raise AssertionError(wrong)
                time.sleep(0.02)
        return {"stopped": True}


@unittest.skipUnless(LIAR, "not run: NORN_LIAR is not set")
@unittest.skipUnless(yaml, "not run: no YAML for this Python: apt-get install python3-yaml")
class Conformance(unittest.TestCase):
    def test_list(self):
        liar, lock, wrong = Liar(), threading.Lock(), []
        ask = liar.ask

        def alone(**order):
            with lock:
                return ask(**order)

        liar.ask = alone
        left = cases()
        self.assertGreater(len(left), 40)

        def some():
            while True:
                try:
                    case = left.pop(0)
                except IndexError:
                    return
                try:
                    run = Run(case, liar)
                    try:
                        for n, step in enumerate(case["steps"]):
                            why = run.step(step)
                            if why:
                                wrong.append("%s: step %d, %s: %s" % (case["name"], n + 1, step["do"], why))
                                break
                    finally:
                        run.close()
                except BaseException as e:
                    wrong.append("%s: %s: %s" % (case["name"], type(e).__name__, e))

        threads = [threading.Thread(target=some) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        liar.close()
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
