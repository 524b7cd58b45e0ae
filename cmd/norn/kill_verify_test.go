package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/archive"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// killCheck reads everything back while the load is silent.
type killCheck struct {
	*killLoad
	archives string
	read     map[string]bool // files of archives
}

// all is everything that a list has.
type all struct {
	states map[id.ID]nornv1.State
	counts map[string]map[nornv1.State]uint64 // by queue
}

func (k *killCheck) list(ctx context.Context) (all, error) {
	a := all{map[id.ID]nornv1.State{}, map[string]map[nornv1.State]uint64{}}
	for t, err := range k.c.List(ctx, client.Filter{IDsOnly: true, PageSize: 1000}) {
		if err != nil {
			return a, err
		}
		task, err := id.Parse(t.GetId())
		if err != nil {
			return a, err
		}
		if _, twice := a.states[task]; twice {
			k.j.mismatch("the list has %s twice", task)
		}
		a.states[task] = t.GetState()
		if a.counts[t.GetQueue()] == nil {
			a.counts[t.GetQueue()] = map[nornv1.State]uint64{}
		}
		a.counts[t.GetQueue()][t.GetState()]++
	}
	return a, nil
}

// everything compares what the server has with what was acknowledged.
func (k *killCheck) everything(ctx context.Context) error {
	k.gate.Lock()
	defer k.gate.Unlock()
	_, _, err := k.compare(ctx)
	return err
}

// compare is everything without the lock. same tells whether every queue could
// be counted: nothing has happened in it meanwhile.
func (k *killCheck) compare(ctx context.Context) (listed all, same bool, err error) {
	before, err := k.c.Count(ctx, "")
	if err != nil {
		return listed, false, err
	}
	begun := k.j.begins()
	if listed, err = k.list(ctx); err != nil {
		return listed, false, err
	}
	after, err := k.c.Count(ctx, "")
	if err != nil {
		return listed, false, err
	}
	collected := k.j.listed(begun, listed.states)
	same = k.counts(before, after, listed)
	if err := k.archived(); err != nil {
		return listed, same, err
	}
	for _, task := range collected {
		begun := k.j.begins()
		t, err := k.c.Get(ctx, task)
		k.j.buried(begun, task, t.GetState(), err)
	}
	if err := k.settings(ctx); err != nil {
		return listed, same, err
	}
	return listed, same, k.j.verdict()
}

// counts compares the queues that have not changed between two counts.
func (k *killCheck) counts(before, after *nornv1.CountReply, listed all) bool {
	old := map[string]string{}
	for _, n := range before.GetQueues() {
		old[n.GetQueue()] = n.String()
	}
	same := len(before.GetQueues()) == len(after.GetQueues())
	for _, n := range after.GetQueues() {
		if old[n.GetQueue()] != n.String() {
			same = false // a claim has run out, a time has come, or something was collected
			continue
		}
		k.j.counted(n.GetQueue(), n, listed.counts[n.GetQueue()])
	}
	return same
}

// archived reads the archives that are new.
func (k *killCheck) archived() error {
	files, err := archive.Manifests(k.archives)
	if err != nil {
		return err
	}
	for _, m := range files {
		if k.read[m.File] {
			continue
		}
		k.read[m.File] = true
		for t, err := range archive.Read(k.archives, m) {
			if err != nil {
				return err
			}
			k.j.inArchive(t)
		}
	}
	return nil
}

// settings compares those of queues with what was acknowledged.
func (k *killCheck) settings(ctx context.Context) error {
	queues, err := k.c.Queues().List(ctx)
	if err != nil {
		return err
	}
	found := map[string]*nornv1.QueueSettings{}
	for _, q := range queues {
		found[q.GetName()] = q.GetSettings()
	}
	for name, want := range killSettings() {
		got := found[name]
		if got.GetRetry().GetMaxAttempts() != want.GetRetry().GetMaxAttempts() || got.GetRetention() != want.GetRetention() || got.GetRetentionSeconds() != want.GetRetentionSeconds() {
			k.j.mismatch("the settings of %s are %v, not %v", name, got, want)
		}
	}
	if got := found[qPlain].GetNote(); !slices.Contains(strings.Split(k.note, "|"), got) {
		k.j.mismatch("the note of %s is %q, not %q", qPlain, got, k.note)
	}
	k.j.gateIs(found[qGate])
	return nil
}

// gateIs compares the queue that is paused and drained with what was
// acknowledged.
func (j *judge) gateIs(s *nornv1.QueueSettings) {
	_, end := j.hear()
	defer end()
	l := j.lane(qGate)
	if l.paused > 0 && !s.GetPaused() || l.draining > 0 && !s.GetDraining() {
		j.complain(nil, "queue %s was paused or drained, and is %v", qGate, s)
	}
	j.count("settings read back", 1)
}

// killSettings are the settings of the queues. What they say of retries makes
// tasks die by workers that discard them, and otherwise never.
func killSettings() map[string]*nornv1.QueueSettings {
	out := map[string]*nornv1.QueueSettings{}
	for _, q := range append([]string{qPurge}, workedQueues...) {
		out[q] = &nornv1.QueueSettings{
			LeaseSeconds: 1.5, Retry: &nornv1.RetryPolicy{MaxAttempts: 10_000, InitialSeconds: 0.05, MaxSeconds: 0.3},
		}
	}
	out[qBrief].Retention, out[qBrief].RetentionSeconds = nornv1.Retention_RETENTION_DELETE, retention.Seconds()
	out[qArchive].Retention, out[qArchive].RetentionSeconds = nornv1.Retention_RETENTION_ARCHIVE, retention.Seconds()
	return out
}

// prepare makes the queues.
func (k *killLoad) prepare(ctx context.Context) error {
	for name, s := range killSettings() {
		_, err := k.c.Queues().Set(ctx, name, client.QueueChange{
			Settings: s, Fields: []string{"lease_seconds", "retry", "retention", "retention_seconds"},
		})
		if err != nil {
			return err
		}
		l := k.j.lane(name)
		l.archive = s.GetRetention() == nornv1.Retention_RETENTION_ARCHIVE
		l.retention = time.Duration(s.GetRetentionSeconds() * float64(time.Second))
	}
	return nil
}

// idle waits until nothing is left to do but what can never be done.
func (k *killCheck) idle(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var seen []id.ID
	for {
		stuck, err := k.stuck(ctx)
		switch {
		case err == nil && len(stuck) == 0:
			return nil
		case err == nil:
			seen = stuck
		case ctx.Err() == nil:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d tasks do not finish: %s", len(seen), k.why(seen))
		}
	}
}

// stuck are the tasks that could go on.
func (k *killCheck) stuck(ctx context.Context) (tasks []id.ID, err error) {
	open := client.Filter{IDsOnly: true, Limit: 3, States: []nornv1.State{
		nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED,
	}}
	for t, err := range k.c.List(ctx, open) {
		if err != nil {
			return nil, err
		}
		task, _ := id.Parse(t.GetId()) // a wrong one is found by the full list
		tasks = append(tasks, task)
	}
	if len(tasks) > 0 {
		return tasks, nil
	}
	k.gate.Lock()
	defer k.gate.Unlock()
	listed, _, err := k.compare(ctx)
	for task, s := range listed.states {
		if !client.Finished(s) && (s != nornv1.State_STATE_WAITING || !k.j.mayWait(task, listed.states)) {
			tasks = append(tasks, task)
		}
	}
	return tasks, err
}

// why explains the first of some tasks.
func (k *killCheck) why(stuck []id.ID) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var out []string
	for _, task := range stuck[:min(3, len(stuck))] {
		e, err := k.c.Explain(ctx, task)
		out = append(out, fmt.Sprint(task, e, err, k.j.story(task)))
	}
	return strings.Join(out, "; ")
}

// story is what was heard of a task.
func (j *judge) story(task id.ID) []string {
	_, end := j.hear()
	defer end()
	if t := j.tasks[task]; t != nil {
		return slices.Clone(t.trace)
	}
	return nil
}

// finally compares everything once more: with all updates, and until every
// queue could be counted.
func (k *killCheck) finally(ctx context.Context) error {
	for {
		_, same, err := k.compare(ctx)
		if err != nil {
			return err
		}
		if same {
			break
		}
	}
	for _, task := range k.j.withUpdates() {
		log, err := k.c.Log(ctx, task, client.LogOptions{})
		if err != nil {
			return err
		}
		if len(log.GetUpdates()) > 0 || !k.collectedSince(ctx, task) {
			k.j.logged(task, log.GetUpdates())
		}
	}
	r, err := archive.Verify(ctx, k.archives, nil)
	if err == nil && len(r.Problems) > 0 {
		err = fmt.Errorf("archives: %v", r.Problems)
	}
	if err != nil {
		return err
	}
	return k.j.verdict()
}

// collectedSince says that a task, which was there when everything was compared, has
// been collected since, as it may have been: its log has gone with it.
func (k *killCheck) collectedSince(ctx context.Context, task id.ID) bool {
	t, err := k.c.Get(ctx, task)
	return err == nil && t.GetQueue() == "" && k.j.mayBeCollected(task)
}

func (j *judge) mayBeCollected(task id.ID) bool {
	_, end := j.hear()
	defer end()
	return j.lane(j.tasks[task].spec.Queue).retention > 0
}

// withUpdates are the tasks with acknowledged updates that must be there.
func (j *judge) withUpdates() (tasks []id.ID) {
	_, end := j.hear()
	defer end()
	for _, t := range j.tasks {
		if len(t.updates) > 0 && t.grave == 0 {
			tasks = append(tasks, t.id)
		}
	}
	return tasks
}

// features are all that a run must have exercised: a workload in which nothing
// happens proves nothing.
var features = []string{
	"enqueue acknowledged", "enqueue of a batch", "enqueue repeated", "enqueue with a delay", "chain", "chain, unknown dependencies first",
	"fan: dependents", "dependency that dies", "dependency that never comes",
	"run although a dependency may have failed", "cancelled by a dependency", "waits for ever for a dependency that failed", "key: new", "key: taken", "key with a window: new", "key with a window: taken",
	"key: enqueue by the key alone", "grant", "grant after dependencies", "grant of a task that was granted before", "worker died silently", "renew acknowledged", "update acknowledged",
	"update read back", "complete alone", "complete as a batch", "complete late", "complete acknowledged", "fail acknowledged", "release acknowledged",
	"discard acknowledged", "task died", "retry acknowledged", "cancel acknowledged", "cancel by filter acknowledged",
	"cancel by filter: surely cancelled", "purge acknowledged", "purge: surely cancelled", "pause acknowledged", "drain acknowledged", "resume acknowledged",
	"setting acknowledged", "settings read back", "tombstone read", "archive read back", "collected and in an archive", "count", "list", "get", "explain",
	"full list", "count compared with list", "kill under load", "kill while starting", "kill while dependents are told",
}

// missed are the features that were not exercised yet.
func (j *judge) missed() (out []string) {
	_, end := j.hear()
	defer end()
	for _, f := range features {
		if j.done[f] == 0 {
			out = append(out, f)
		}
	}
	return out
}

// summary is what has happened, a line per feature.
func (j *judge) summary() string {
	_, end := j.hear()
	defer end()
	var b strings.Builder
	for _, f := range slices.Sorted(maps.Keys(j.done)) {
		fmt.Fprintf(&b, "%9d  %s\n", j.done[f], f)
	}
	return b.String()
}
