package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// tenant sets a tenant in the register, and all nodes hear of it.
func (r *trio) tenant(name string, limits *nornv1.TenantLimits) {
	r.t.Helper()
	data, err := gproto.Marshal(&nornv1.StoredTenant{Prefix: name + "/", Limits: limits})
	r.check(err)
	change := register.AccessChange{Key: quota.Key + name, Data: data}
	change.Old = r.state().Access[change.Key].Version
	r.register.Do(register.Request{Access: []register.AccessChange{change}}, func(register.Result) {})
	r.tell()
	r.settle()
}

// hears lets time pass in which nodes ask each other what a tenant has.
func (r *trio) hears() {
	for range 10 {
		r.pass(50 * time.Millisecond)
		r.settle()
	}
}

// tries enqueues a task of a partition through a node as somebody, and gives what is said.
func (r *trio) tries(i int, queue string, p ring.Partition, s *guard.Scope) (task id.ID, said string) {
	task = r.at(p)
	m := spec(queue)
	m.Id = task.Bytes()
	return task, r.scoped(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{m}}, s)
}

// TestATenantOfMoreNodesThanReplicas: of five nodes none keeps all partitions. Somebody of a tenant gets to
// what is its own, and to nothing else, through each of them.
func TestATenantOfMoreNodesThanReplicas(t *testing.T) {
	r := newCluster(t, 5, 0)
	r.tenant("acme", nil)
	acme := guard.NewPrincipal("ci", guard.ByToken, nil, []guard.Rule{{Verbs: guard.All, Pattern: guard.Everything}}, "acme/").Scope()
	for p := range ring.Partition(testPartitions) {
		hidden, none := r.stored("acme2/mail", p), r.at(p)
		for i := range r.peers {
			own, said := r.tries(i, "acme/mail", p, acme)
			if strings.Contains(said, "error") || !strings.HasSuffix(said, "<nil>") {
				t.Fatalf("node %d, partition %d: %s", i+1, p, said)
			}
			if got := r.scoped(i, &nornv1.GetRequest{Id: own.Bytes()}, acme); !strings.Contains(got, "STATE_READY") {
				t.Errorf("node %d, partition %d: its own task is %s", i+1, p, got)
			}
			was := byID(none)
			for name, m := range byID(hidden) {
				got, want := r.scoped(i, m, acme), r.scoped(i, was[name], acme)
				if strings.ReplaceAll(got, hidden.String(), "ID") != strings.ReplaceAll(want, none.String(), "ID") {
					t.Errorf("node %d, partition %d, %s: what is another tenant's is %s\nwhat is not there is %s", i+1, p, name, got, want)
				}
			}
			r.scoped(i, &nornv1.CancelRequest{Ids: [][]byte{hidden.Bytes(), own.Bytes()}}, acme)
			for task, want := range map[id.ID]string{own: "STATE_CANCELLED", hidden: "STATE_READY"} {
				if got := r.scoped(0, &nornv1.GetRequest{Id: task.Bytes()}, nil); !strings.Contains(got, want) {
					t.Errorf("node %d, partition %d: the task is to be %s: %s", i+1, p, want, got)
				}
			}
		}
	}
}

// TestLimitsOfMoreNodesThanReplicas: a task that three of five nodes keep counts once, whichever node judges.
// Until a node has heard of the others it lets in too many rather than too few, and not for long.
func TestLimitsOfMoreNodesThanReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		limits *nornv1.TenantLimits
		says   string // with how many tasks there are
	}{
		"tasks": {&nornv1.TenantLimits{Tasks: 40}, "tenant acme has about %d tasks that are not finished, its limit (max-tasks) is 40"},
		"bytes": {&nornv1.TenantLimits{Bytes: 40 * uint64(len("payload"))}, "the tasks of tenant acme have about %d bytes, finished ones too, this one has 7, and its limit (max-bytes) is 280"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCluster(t, 5, 0)
			r.tenant("acme", c.limits)
			scope := guard.NewPrincipal("ci", guard.ByToken, nil, []guard.Rule{{Verbs: guard.All, Pattern: guard.Everything}}, "acme/").Scope()
			there, last := 0, ""
			for n := range 80 {
				if _, last = r.tries(n%len(r.peers), fmt.Sprintf("acme/q%d", n%3), ring.Partition(n%testPartitions), scope); strings.Contains(last, "OVERLOADED") {
					continue
				}
				there++
				r.hears()
			}
			if there < 40 || there > 40+len(r.peers) {
				t.Errorf("%d tasks are in, the limit is 40", there)
			}
			shown := there
			if name == "bytes" {
				shown *= len("payload")
			}
			if want := fmt.Sprintf(c.says, shown); !strings.Contains(last, want) {
				t.Errorf("it is refused with %s\nnot with %s", last, want)
			}
			r.stored("acme2/q", 0)
			r.stored("q", 0)
		})
	}
}
