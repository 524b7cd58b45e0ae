package peer

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

func TestMessagesArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		for i := range 1000 {
			if !a.Send(who(2, 0), numbered(i+1)) {
				t.Fatalf("message %d was dropped", i)
			}
		}
		settle(time.Millisecond)
		got := numbers(b.taken())
		if len(got) != 1000 || !slices.IsSorted(got) {
			t.Errorf("%d of 1000 messages came: %v", len(got), got)
		}
		if b.bursts > 500 { // how many depends on who runs when
			t.Errorf("1000 messages came in %d deliveries", b.bursts)
		}
		if a.seen() != "up n2" || b.seen() != "" {
			t.Errorf("a saw %q, b %q", a.seen(), b.seen())
		}
		settle(time.Minute) // and the connection lives
		if a.seen() != "up n2" {
			t.Errorf("a saw %q", a.seen())
		}
	})
}

func TestAConnectionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		defer a.stop()
		a.Keep([]register.Member{who(1, 0), who(2, 0)})
		settle(10 * time.Minute)
		if a.seen() != "up n2" {
			t.Errorf("a saw %q", a.seen())
		}
		b.stop()
		settle(time.Second)
		if a.seen() != "up n2, down n2" {
			t.Errorf("a saw %q", a.seen())
		}
		b = w.add(who(2, 0))
		defer b.stop()
		settle(2 * time.Second)
		if a.seen() != "up n2, down n2, up n2" {
			t.Errorf("a saw %q", a.seen())
		}
	})
}

// TestMessagesBelongToTheHandler: what came is not overwritten by what comes
// later.
func TestMessagesBelongToTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		for i := range 200 {
			m := bulky(uint64(i), 500)
			for j := range m.Parts[0].Facts[0].Body {
				m.Parts[0].Facts[0].Body[j] = byte(i)
			}
			a.Send(who(2, 0), m)
			if i%10 == 0 {
				settle(time.Millisecond)
			}
		}
		settle(time.Second)
		got := b.taken()
		for i, m := range got {
			body := m.(*message.Facts).Parts[0].Facts[0].Body
			if bytes.Count(body, []byte{byte(i)}) != 500 {
				t.Fatalf("message %d has the body %v", i, body)
			}
		}
		if len(got) != 200 {
			t.Errorf("%d of 200 messages came", len(got))
		}
	})
}

// TestALargeAcknowledgementArrives: one that names the cohorts of as many partitions as there may
// be is larger than what is read on a control connection. It was sent there all the same and
// passed over, so that a write to all partitions during elections had no answer.
func TestALargeAcknowledgementArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		var cohort []register.Member
		for i := range 5 { // named by their addresses, as nodes are that nobody has named
			cohort = append(cohort, register.Member{Node: fmt.Sprintf("ip-10-20-30-%d.eu-central-1.compute.internal:7712", i)})
		}
		m := &message.FactsTaken{Write: 7}
		for p := range ring.MaxPartitions {
			m.Fences = append(m.Fences, message.Fence{Partition: ring.Partition(p), Cohorts: [][]register.Member{cohort}})
		}
		if !a.Send(who(2, 0), m) {
			t.Fatal("it was dropped")
		}
		settle(time.Second)
		if got := b.taken(); len(got) != 1 || len(got[0].(*message.FactsTaken).Fences) != ring.MaxPartitions {
			t.Errorf("%d messages came; %+v", len(got), b.Status())
		}
	})
}
