package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
)

// reading is the end of a run: the cluster comes to rest, and everything is read
// back through every node.
type reading struct {
	*crew
	all []*hand // one per node
}

// settle waits until the cluster is at rest, and says so in the history.
func (l *lab) settle(ctx context.Context, c *crew, w Workload) error {
	if err := l.relink(func(all map[way]link) { clear(all) }); err != nil {
		return err
	}
	for _, p := range l.members() {
		if p.running(0) {
			continue
		}
		if err := l.begin(p); err != nil {
			return err
		}
	}
	if err := l.whole(ctx, rest); err != nil {
		l.found("stuck", "the cluster does not come to rest: %v", err)
		return errStuck
	}
	if err := l.serves(ctx, rest); err != nil {
		l.found("stuck", "the cluster is whole, and does not serve: %v", err)
		return errStuck
	}
	l.alike(ctx)
	if w.claims {
		if w.finish != nil {
			if err := w.finish(ctx, c); err != nil {
				return err
			}
		}
		if err := l.drain(ctx, w); err != nil {
			return err
		}
		if w.kept > 0 {
			if err := c.forgets(ctx); err != nil {
				return err
			}
		}
	}
	if err := l.rests(ctx); err != nil {
		return err
	}
	l.note("whole")
	l.rec.note(check.Settled)
	return nil
}

// alike notes when all replicas are equal while no client asks for anything: from then on
// what one copy was asked for holds as well (I3). Writes that the cluster makes itself may
// keep it from that for longer than is waited for.
func (l *lab) alike(ctx context.Context) {
	if err := l.equal(ctx, l.members()[0], 20*time.Second); err != nil {
		l.say("not equal before everything is done: %v", err)
		return
	}
	l.rec.note(check.Equal)
	l.say("all replicas are equal")
}

// rests waits until the cluster is whole and all replicas are equal, as each
// node sees it.
func (l *lab) rests(ctx context.Context) error {
	if err := l.whole(ctx, rest); err != nil {
		l.found("stuck", "the cluster does not come to rest: %v", err)
		return errStuck
	}
	for _, p := range l.members() {
		if err := l.equal(ctx, p, 40*time.Second); err != nil {
			l.found("convergence", "%v", err)
			return errStuck
		}
	}
	return nil
}

// readBack reads everything through every node.
func (l *lab) readBack(ctx context.Context, c *crew) error {
	r := &reading{crew: c}
	for _, p := range l.members() {
		dialled, err := l.dial(patience, p)
		if err != nil {
			return err
		}
		r.all = append(r.all, &hand{crew: c, process: l.rec.process(), client: dialled, node: p})
	}
	var first []history.Item
	for i, h := range r.all {
		h.program()
		h.count(ctx)
		shown, err := h.list(ctx)
		switch {
		case err != nil:
			l.found("stuck", "%s does not list: %v", h.node.name, err)
			return errStuck
		case i == 0:
			first = shown
		case len(shown) != len(first):
			l.found("convergence", "%s lists %d tasks, %s %d", r.all[0].node.name, len(first), h.node.name, len(shown))
		}
	}
	l.say("%d tasks are listed through each node", len(first))
	r.finish(ctx, unfinished(first))
	if err := l.rests(ctx); err != nil {
		return err
	}
	l.rec.mu.Lock()
	all, _ := tasksOf(l.rec.events) // what is not listed too
	l.rec.mu.Unlock()
	for i := range first {
		all[first[i].Task] = true
	}
	r.getAll(ctx, slices.SortedFunc(maps.Keys(all), id.ID.Compare))
	for _, h := range r.all {
		h.count(ctx)
		if _, err := h.list(ctx); err != nil {
			l.found("stuck", "%s does not list: %v", h.node.name, err)
		}
	}
	return nil
}

// program has the program itself verify and count, as an operator does.
func (h *hand) program() {
	if out, err := h.norn("cluster", "verify", "--wait", "40s"); err != nil {
		h.found("convergence", "norn cluster verify through %s: %v\n%s", h.node.name, err, out)
	}
	out, err := h.norn("task", "count", "-o", "json")
	var got struct{ Total json.Number }
	if err == nil {
		err = json.Unmarshal([]byte(out), &got)
	}
	if err != nil {
		h.found("stuck", "norn task count through %s: %v", h.node.name, err)
		return
	}
	l := h.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts = append(l.counts, fmt.Sprintf("%s %s", h.node.name, got.Total))
}

// norn runs a command of the program through the client's node.
func (h *hand) norn(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.cfg.Norn, append([]string{"--addr", h.node.dial}, args...)...)
	cmd.Env = append(os.Environ(), "NORN_AUTH_TOKEN="+h.token)
	if h.pki != nil {
		own := filepath.Join(h.pki.dir, "client")
		cmd.Env = append(cmd.Env, "NORN_TLS_CA="+filepath.Join(h.pki.dir, "servers.pem"), "NORN_TLS_CERT="+own+".pem", "NORN_TLS_KEY="+own+"-key.pem")
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %.300s", err, exit.Stderr)
	}
	return string(out), err
}

// count reads the counters of everything.
func (h *hand) count(ctx context.Context) {
	asked := h.rec.invoke(h.process, &history.Event{Func: history.Count})
	got, err := h.client.Count(ctx, "")
	answer := history.Event{}
	if err == nil {
		answer.Tallies = tallies(got)
	} else {
		h.found("stuck", "%s does not count: %v", h.node.name, err)
	}
	h.rec.end(asked, err, answer)
}

// list reads all tasks.
func (h *hand) list(ctx context.Context) (shown []history.Item, err error) {
	asked := h.rec.invoke(h.process, &history.Event{Func: history.List})
	answer := history.Event{}
	for t, bad := range h.client.List(ctx, client.Filter{PageSize: 1000}) {
		if bad != nil {
			err = bad
			break
		}
		answer.Items = append(answer.Items, seen(t))
	}
	h.rec.end(asked, err, answer)
	return answer.Items, err
}

// finish cancels what is left, so that everything is finished in the end.
func (r *reading) finish(ctx context.Context, tasks []id.ID) {
	h := r.all[0]
	for len(tasks) > 0 {
		some := tasks[:min(len(tasks), 1000)]
		tasks = tasks[len(some):]
		asked := h.rec.invoke(h.process, &history.Event{Func: history.Cancel, Items: items(some)})
		got, err := h.client.Cancel(ctx, some, client.CancelOptions{Reason: "the end"})
		if phase := h.rec.end(asked, err, history.Event{Items: results(asked, got)}); phase != history.OK {
			h.found("stuck", "tasks cannot be cancelled: %v", err)
			return
		}
	}
}

// readers are how many readings are under way at a time in the end.
const readers = 24

// getAll reads each task through some node.
func (r *reading) getAll(ctx context.Context, tasks []id.ID) {
	var work sync.WaitGroup
	for k := range readers {
		h := r.all[k%len(r.all)]
		own := &hand{crew: h.crew, process: r.rec.process(), client: h.client, node: h.node}
		work.Go(func() {
			for i := k; i < len(tasks) && ctx.Err() == nil; i += readers {
				own.get(tasks[i], client.ReadQuorum)
			}
		})
	}
	work.Wait()
}
