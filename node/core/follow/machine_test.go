package follow

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
)

// followed has one request that follows a task for ten seconds, and has found nothing yet.
func followed(t *testing.T) (l *Machine, from message.Origin, task id.ID) {
	t.Helper()
	v := view.New(register.Member{Node: "a"}, 4)
	l = New(Env{
		Ground:     &ground.Ground{View: v, Round: round.New(memstore.New()), Tenants: quota.New(), Pending: waiting.New()},
		Partitions: 4,
		Gone: func(ring.Partition) *proto.Error {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "others keep it")
		},
	})
	from, task = message.Origin{Conn: 1, Request: 2}, id.ID{7}
	l.Follow(clock.Time{Mono: 1}, &message.Request{From: from}, &nornv1.LogRequest{WaitSeconds: 10}, task, false)
	if n := reads(l); n != 1 {
		t.Fatalf("at first it reads %d times", n)
	}
	l.ReadDone(message.ReadDone{From: from, Empty: true})
	return l, from, task
}

// reads takes out what is to be read.
func reads(l *Machine) int {
	n := len(l.Round.Ready.Reads)
	l.Round.Ready.Reads = nil
	return n
}

// TestAFactThatComesWhileItIsReadIsReadToo: no wake-up is lost, and none is doubled.
func TestAFactThatComesWhileItIsReadIsReadToo(t *testing.T) {
	l, from, task := followed(t)
	l.Wake(id.ID{8})
	if n := reads(l); n != 0 {
		t.Errorf("for another task it reads %d times", n)
	}
	l.Wake(task)
	l.Wake(task)
	if n := reads(l); n != 1 {
		t.Errorf("for two facts at once it reads %d times", n)
	}
	l.ReadDone(message.ReadDone{From: from, Empty: true})
	if n := reads(l); n != 1 {
		t.Errorf("after a fact during a read it reads %d times", n)
	}
	if l.ReadDone(message.ReadDone{From: from, Empty: true}); reads(l) != 0 || l.Count() != 1 || l.Audit() != nil {
		t.Errorf("with nothing new %d wait: %v", l.Count(), l.Audit())
	}
	l.Wake(task)
	if l.ReadDone(message.ReadDone{From: from}); l.Count() != 0 || l.Pending.Count(waiting.Log) != 0 || l.Audit() != nil {
		t.Errorf("answered, %d wait: %v", l.Count(), l.Audit())
	}
}

// TestAReaderWhoseTimeIsOverReadsOnceMore: that read answers, with nothing if need be.
func TestAReaderWhoseTimeIsOverReadsOnceMore(t *testing.T) {
	l, _, _ := followed(t)
	at := 1 + int64(10*time.Second)
	l.Timeouts(clock.Time{Mono: at - 1})
	if n := reads(l); n != 0 || l.Due() != at {
		t.Errorf("before its time it reads %d times, and is due at %d", n, l.Due())
	}
	l.Timeouts(clock.Time{Mono: at})
	if all := l.Round.Ready.Reads; len(all) != 1 || all[0].Waits || l.Count() != 0 || l.Due() != clock.Never {
		t.Errorf("when its time is over it reads %v, and %d wait", all, l.Count())
	}
}

// TestAReaderIsToldOnce: who gives it up, or where the node stops, by its read if one is under
// way, and not at all if nobody is there.
func TestAReaderIsToldOnce(t *testing.T) {
	stops := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "it stops")
	for what, end := range map[string]struct {
		by   func(*Machine, message.Origin)
		told int
	}{
		"cancelled":         {func(l *Machine, from message.Origin) { l.Pending.Cancel(from) }, 1},
		"gone":              {func(l *Machine, from message.Origin) { l.Pending.Gone(from.Conn) }, 0},
		"stopped":           {func(l *Machine, _ message.Origin) { l.Drain(stops); l.Pending.Drain(stops) }, 1},
		"stopped in a read": {func(l *Machine, from message.Origin) { l.Wake(id.ID{7}); l.Drain(stops); l.Pending.Drain(stops) }, 0},
		"sent away":         {func(l *Machine, from message.Origin) { l.SendAway(from.Conn, stops) }, 1},
	} {
		l, from, _ := followed(t)
		end.by(l, from)
		if n := len(l.Round.Ready.Replies); n != end.told || l.Count() != 0 || l.Of(from.Conn) != 0 || l.Audit() != nil {
			t.Errorf("%s: it is told %d times, not %d, and %d wait: %v", what, n, end.told, l.Count(), l.Audit())
		}
		if what != "stopped in a read" {
			continue
		}
		if l.ReadDone(message.ReadDone{From: from, Empty: true}); len(l.Round.Ready.Replies) != 1 || l.Round.Ready.Replies[0].Err != stops {
			t.Errorf("%s: its read says %v", what, l.Round.Ready.Replies)
		}
	}
}

// TestAnAuditSeesWhatIsMiscounted: requests by task, by time, and all of them.
func TestAnAuditSeesWhatIsMiscounted(t *testing.T) {
	for what, spoil := range map[string]func(*Machine){
		"nothing": func(*Machine) {},
		"count":   func(l *Machine) { l.count++ },
		"task":    func(l *Machine) { clear(l.byTask) },
		"conn":    func(l *Machine) { clear(l.byConn) },
		"time":    func(l *Machine) { l.byTime = nil },
		"table":   func(l *Machine) { l.byConn[1][2].waits.Close() },
	} {
		l, _, _ := followed(t)
		spoil(l)
		if err := l.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
