package registercall

import (
	"errors"
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store/memstore"

	gproto "google.golang.org/protobuf/proto"
)

// testMachine is the machine of a node that was shown revision 5 of generation 2.
func testMachine() *Machine {
	v := view.New(register.Member{Node: "a"}, 0)
	v.State = register.State{Generation: 2, Revision: 5}
	return New(Env{Ground: &ground.Ground{View: v, Round: round.New(memstore.New())}, Standing: &standing.Machine{}})
}

// ways are those of asking the register; each gives the number of its request.
var ways = map[string]func(*Machine, Then) uint64{
	"send": func(m *Machine, then Then) uint64 {
		m.Send(register.Request{}, then)
		return m.Round.Ready.Register[len(m.Round.Ready.Register)-1].Tag
	},
	"commit": func(m *Machine, then Then) uint64 {
		m.Commit([]register.Change{{}}, then)
		return m.Round.Ready.Commit[len(m.Round.Ready.Commit)-1].Tag
	},
}

// accept takes a state over.
func accept(clock.Time, *register.State) bool { return true }

// TestEachRequestHearsOneAnswer: guarantee 1, of each way to ask, in any order, and whoever else answers.
func TestEachRequestHearsOneAnswer(t *testing.T) {
	for way, ask := range ways {
		m, heard := testMachine(), [2]int{}
		first := ask(m, func(clock.Time, register.Result) { heard[0]++ })
		second := ask(m, func(clock.Time, register.Result) { heard[1]++ })
		learned := 0
		for _, tag := range []uint64{second, first, second, second + 7} {
			m.Answered(clock.Time{}, register.Result{Tag: tag, State: m.View.State}, func(clock.Time, *register.State) bool { learned++; return true })
		}
		if heard != [2]int{1, 1} || learned != 2 || first == second {
			t.Errorf("%s: requests %d and %d heard %v answers, and %d states were looked at", way, first, second, heard, learned)
		}
	}
}

// TestAClientIsAnsweredOnce: with what comes of its request, or why that is not known.
func TestAClientIsAnsweredOnce(t *testing.T) {
	from, down := message.Origin{Conn: 1, Request: 2}, errors.New("down")
	for what, r := range map[string]register.Result{"done": {}, "failed": {Err: down}} {
		m := testMachine()
		unavailable := func(_ error, effect nornv1.Effect) *proto.Error {
			e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "down")
			e.Effect = effect
			return e
		}
		early, err := m.Consult(from, register.Request{}, unavailable, nornv1.Effect_EFFECT_UNKNOWN, func(clock.Time, *register.Result) (gproto.Message, *proto.Error) {
			return &nornv1.WriteReply{}, nil
		})
		if early != nil || err != nil || len(m.Round.Ready.Replies) != 0 {
			t.Errorf("%s: it is answered %v, %v before the register is", what, early, err)
		}
		r.Tag, r.State = m.Round.Ready.Register[0].Tag, m.View.State
		m.Answered(clock.Time{}, r, accept)
		m.Answered(clock.Time{}, r, accept)
		all := m.Round.Ready.Replies
		if len(all) != 1 || all[0].To != from || (all[0].Err != nil) != (r.Err != nil) {
			t.Fatalf("%s: it is answered %v", what, all)
		}
		if e := all[0].Err; e != nil && e.Effect != nornv1.Effect_EFFECT_UNKNOWN {
			t.Errorf("%s: its effect is %v", what, e.Effect)
		}
	}
}

// TestARegisterThatHasGoneBackIsReported: guarantee 2, by what was shown when it was asked, here or
// to the process before this one, whatever way it was asked.
func TestARegisterThatHasGoneBackIsReported(t *testing.T) {
	for way, ask := range ways {
		for _, c := range []struct {
			what                 string
			generation, revision uint64 // of the answer
			diskRevision         uint64 // of generation 2, that the disk knows
			back                 bool
		}{
			{"as it was", 2, 5, 0, false},
			{"later", 2, 6, 0, false},
			{"a revision back", 2, 4, 0, true},
			{"a generation back", 1, 9, 0, true},
			{"a later generation", 3, 1, 0, false},
			{"before what the disk knows", 2, 7, 8, true},
		} {
			m := testMachine()
			if c.diskRevision != 0 {
				m.Standing.Rollback.Generation, m.Standing.Rollback.Revision = 2, c.diskRevision
			}
			tag := ask(m, nil)
			m.View.State.Revision = 5000 // learned since from others: the answer may be older than that
			m.Answered(clock.Time{}, register.Result{Tag: tag, State: register.State{Generation: c.generation, Revision: c.revision}}, accept)
			if why := m.Standing.Rollback.Why; (why != "") != c.back {
				t.Errorf("%s, %s: reported %q", way, c.what, why)
			}
		}
	}
}

// TestAfterAFailureTheRegisterIsRead: guarantee 3, once, after a pause; and who has not been told
// the register's state by it yet reads it again, too.
func TestAfterAFailureTheRegisterIsRead(t *testing.T) {
	for _, c := range []struct {
		what            string
		err             error
		taken, current  bool
		again, toldThen bool
	}{
		{"it answers", nil, true, true, false, true},
		{"it fails", errors.New("down"), true, true, true, true},
		{"its state is not taken over, as nothing was yet", nil, false, false, true, false},
		{"its state is not taken over", nil, false, true, false, false},
	} {
		m, now, told := testMachine(), clock.Time{Mono: 77}, false
		m.View.Current = c.current
		m.Send(register.Request{Values: []register.ValueChange{{Name: "x"}}}, func(clock.Time, register.Result) { told = true })
		r := register.Result{Tag: m.Round.Ready.Register[0].Tag, Err: c.err, State: m.View.State}
		m.Round.Take()
		m.Answered(now, r, func(clock.Time, *register.State) bool { return c.taken })
		at := m.Due()
		if (at != clock.Never) != c.again || c.again && at != now.Mono+int64(Again) || told != c.toldThen {
			t.Errorf("%s: it is read again at %d, and who asked was told: %t", c.what, at, told)
		}
		if !c.again {
			continue
		}
		m.Work(clock.Time{Mono: at - 1})
		early := len(m.Round.Ready.Register)
		m.Work(clock.Time{Mono: at})
		m.Work(clock.Time{Mono: at})
		if all := m.Round.Ready.Register; early != 0 || len(all) != 1 || len(all[0].Values) != 0 || len(all[0].Changes) != 0 || m.Due() != clock.Never {
			t.Errorf("%s: %d requests too early, then %v, due at %d", c.what, early, all, m.Due())
		}
	}
}
