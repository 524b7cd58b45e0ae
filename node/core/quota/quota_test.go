package quota

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

func state(revision uint64, all ...*nornv1.SetTenant) *register.State {
	s := &register.State{Revision: revision, AccessAt: revision, Access: make(map[string]register.Value)}
	for _, t := range all {
		data, err := gproto.Marshal(&nornv1.StoredTenant{Prefix: t.GetPrefix(), Limits: t.GetLimits()})
		if err != nil {
			panic(err)
		}
		s.Access[Key+t.GetName()] = register.Value{Version: revision, Data: data}
	}
	return s
}

// TestAcmeIsNotAcme2: whose a name is follows from its first part, whatever others begin with.
func TestAcmeIsNotAcme2(t *testing.T) {
	m := New()
	if m.Of("acme/mail") != nil {
		t.Error("a tenant that nobody made")
	}
	m.Learn(state(5, &nornv1.SetTenant{Name: "a", Prefix: "acme/"}, &nornv1.SetTenant{Name: "b", Prefix: "acme2/"}))
	for name, want := range map[string]string{"acme/mail": "a", "acme/x/y": "a", "acme2/mail": "b", "acme": "", "acm/mail": "", "acme3/mail": "", "x/acme/mail": "", "": "", "acme/": "a"} {
		got := ""
		if of := m.Of(name); of != nil {
			got = of.Name
		}
		if got != want {
			t.Errorf("%s is of %q, not of %q", name, got, want)
		}
	}
	m.Learn(state(4))
	if m.Of("acme/mail") == nil {
		t.Error("an older state took a tenant away")
	}
	m.Learn(state(6, &nornv1.SetTenant{Name: "b", Prefix: "acme2/"}))
	if m.Of("acme/mail") != nil || m.Of("acme2/mail") == nil {
		t.Error("a newer state did not take one away, or another one")
	}
}

// TestALimitSaysWhichAndHowMuchIsUsed: each of them.
func TestALimitSaysWhichAndHowMuchIsUsed(t *testing.T) {
	x := &Tenant{Name: "acme", Limits: &nornv1.TenantLimits{Queues: 2, Tasks: 3, Schedules: 4, Claims: 5, Waits: 6, Bytes: 70}}
	none := &Tenant{Name: "acme"}
	for _, c := range []struct {
		judge func(t *Tenant, used int) *proto.Error
		limit int
		words string
	}{
		{func(t *Tenant, n int) *proto.Error { return t.Queue(n) }, 2, "tenant acme has 2 queues with settings or tasks, its limit (max-queues) is 2"},
		{func(t *Tenant, n int) *proto.Error { return t.Task(uint64(n), 0) }, 3, "tenant acme has 3 tasks that are not finished, its limit (max-tasks) is 3"},
		{func(t *Tenant, n int) *proto.Error { return t.Task(1, uint64(n-1)) }, 3, "tenant acme has about 3 tasks that are not finished, its limit (max-tasks) is 3"},
		{func(t *Tenant, n int) *proto.Error { return t.Size(uint64(10*n), 0, 1) }, 7, "the tasks of tenant acme have 70 bytes, finished ones too, this one has 1, and its limit (max-bytes) is 70"},
		{func(t *Tenant, n int) *proto.Error { return t.Size(60, 1, n) }, 10, "the tasks of tenant acme have about 61 bytes, finished ones too, this one has 10, and its limit (max-bytes) is 70"},
		{func(t *Tenant, n int) *proto.Error { return t.Size(0, 0, n) }, 71, "this task has 71 bytes, and all tasks of tenant acme may have 70, its limit (max-bytes)"},
		{func(t *Tenant, n int) *proto.Error { return t.Schedule(n) }, 4, "tenant acme has 4 schedules, its limit (max-schedules) is 4"},
		{func(t *Tenant, n int) *proto.Error { return t.Claim(uint64(n)) }, 5, "tenant acme has 5 tasks under a claim on this node, its limit (max-claims) is 5"},
		{func(t *Tenant, n int) *proto.Error { return t.Wait(n) }, 6, "tenant acme has 6 requests that wait on this node, its limit (max-waits) is 6"},
	} {
		if e := c.judge(x, c.limit-1); e != nil {
			t.Errorf("below the limit: %v", e)
		}
		if e := c.judge(x, c.limit); e == nil || e.Message != c.words || e.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED || e.Effect != nornv1.Effect_EFFECT_NONE {
			t.Errorf("at the limit: %+v", e)
		}
		if e := c.judge(none, 1000); e != nil {
			t.Errorf("without a limit: %v", e)
		}
	}
}

// TestWhatIsCountedIsWhatThereIs: queues, waits and schedules by first part, against adding up.
func TestWhatIsCountedIsWhatThereIs(t *testing.T) {
	m, r := New(), rand.New(rand.NewPCG(1, 2))
	queues, waits, schedules := map[string]bool{}, map[string]int{}, map[string]bool{}
	s := register.State{Revision: 1}
	for range 3000 {
		prefix := fmt.Sprintf("t%d/", r.IntN(4))
		name := prefix + fmt.Sprint(r.IntN(5))
		switch r.IntN(4) {
		case 0:
			if queues[name] = !queues[name]; !queues[name] {
				delete(queues, name)
			}
			m.Queue(name, queues[name])
		case 1:
			waits[prefix]++
			m.Waits(prefix, true)
		case 2:
			if waits[prefix] > 0 {
				waits[prefix]--
				m.Waits(prefix, false)
			}
		case 3:
			change := register.ScheduleChange{Name: name, Remove: schedules[name]}
			if x := s.Schedules.Get(name); x != nil {
				change.Old = x.Revision
			}
			if !change.Remove {
				change.Definition = []byte{1}
			}
			next, res, _ := s.Apply(&register.Request{Schedules: []register.ScheduleChange{change}})
			if len(res.SchedulesWon) != 1 || !res.SchedulesWon[0] {
				t.Fatalf("%+v: %+v", change, res)
			}
			if s, schedules[name] = next, !schedules[name]; !schedules[name] {
				delete(schedules, name)
			}
			m.Learn(&s)
		}
		below := func(all map[string]bool) (n int) {
			for name := range maps.Keys(all) {
				if strings.HasPrefix(name, prefix) {
					n++
				}
			}
			return n
		}
		if q, sch, w := m.Use(prefix); q != below(queues) || sch != below(schedules) || w != waits[prefix] {
			t.Fatalf("%s has %d queues, %d schedules, %d waits; it should be %d, %d, %d", prefix, q, sch, w, below(queues), below(schedules), waits[prefix])
		}
	}
}

// TestAThousandTenantsCostNothing: to find one among them allocates nothing.
func TestAThousandTenantsCostNothing(t *testing.T) {
	m := New()
	m.Learn(state(1, thousand()...))
	if n := testing.AllocsPerRun(100, func() {
		if m.Of("tenant500/mail") == nil || m.Held("tenant500/mail") {
			t.Fatal("there is none")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func thousand() (all []*nornv1.SetTenant) {
	for i := range 1000 {
		name := fmt.Sprint("tenant", i)
		all = append(all, &nornv1.SetTenant{Name: name, Prefix: name + "/", Limits: &nornv1.TenantLimits{Tasks: 10, Claims: 10}})
	}
	return all
}

// BenchmarkOf finds one of a thousand tenants.
func BenchmarkOf(b *testing.B) {
	m := New()
	m.Learn(state(1, thousand()...))
	b.ReportAllocs()
	for b.Loop() {
		if m.Of("tenant500/mail") == nil {
			b.Fatal("there is none")
		}
	}
}
