package model

import (
	"fmt"
	"strings"
)

// trace replays a way (last state first) and adds the step that broke an
// invariant.
func (f *search) trace(way []uint64, by step, last *state, broke Invariant) []string {
	var at state
	var out []string
	m := machine{rules: f.m.rules}
	for n := range m.cfg.Nodes {
		if m.cfg.Cohorts[0]>>n&1 == 0 {
			continue
		}
		at = m.initial(n)
		if fingerprint(&at, f.perms) == way[len(way)-1] {
			break
		}
	}
	out = append(out, fmt.Sprintf("n%d leads epoch 1 of %s", at.slot[0].who, nodes(m.cohort(&at, 0))))
	for i := len(way) - 2; i >= 0; i-- {
		var next state
		found := false
		m.visit = func(s *state, by step, broke Invariant) {
			if !found && fingerprint(s, f.perms) == way[i] {
				found, next = true, *s
				out = append(out, m.tell(&at, s, by))
			}
		}
		m.expand(&at)
		at = next
	}
	out = append(out, m.tell(&at, last, by)+"   <- breaks "+broke.String())
	return append(out, "then: "+m.describe(last))
}

// nodes writes a mask of nodes.
func nodes(mask uint8) string {
	var out []string
	for n := range MaxNodes {
		if mask>>n&1 != 0 {
			out = append(out, fmt.Sprint(n))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// name is the token of a claim, epoch.seq.
func (s *state) name(c int) string {
	return fmt.Sprintf("c%d.%d", s.slot[slotOf(c)].e, c/slots+1)
}

// show writes a table of claims.
func (s *state) show(t table) string {
	var out []string
	for c := range claims {
		if v := t.at(c); v != 0 {
			w := s.name(c)
			if v>>1 != s.slot[slotOf(c)].e {
				w += fmt.Sprintf("@%d", v>>1)
			}
			if v&relea != 0 {
				w += " released"
			}
			out = append(out, w)
		}
	}
	return "{" + strings.Join(out, ", ") + "}"
}

// tell writes one step from s to t.
func (m *rules) tell(s, t *state, by step) string {
	a, b, c := int(by.a), int(by.b), int(by.c)
	k := &t.slot[b]
	switch by.kind {
	case kStart:
		return fmt.Sprintf("n%d reads epoch %d and stands for epoch %d, %s -> %s; its own snapshot is %s", a, s.slot[k.old].e, k.e,
			nodes(m.cohort(s, int(k.old))), nodes(m.cohort(t, b)), t.show(k.snap[a]))
	case kVote:
		return fmt.Sprintf("n%d promises epoch %d to n%d; it holds %s", a, k.e, k.who, m.holds(t, a))
	case kFetch:
		return fmt.Sprintf("n%d gives n%d its claims %s without a promise", a, k.who, t.show(k.snap[a]))
	case kUnion:
		return fmt.Sprintf("n%d has votes of %s for epoch %d and unites the snapshots: %s%s", k.who, nodes(by.c), k.e, t.show(k.pushed), withDone(k.facts))
	case kPush:
		return fmt.Sprintf("n%d stores the push of n%d for epoch %d; it holds %s", a, k.who, k.e, m.holds(t, a))
	case kCAS:
		return fmt.Sprintf("the register takes epoch %d: n%d leads %s", k.e, k.who, nodes(m.cohort(t, b)))
	case kAssume:
		return fmt.Sprintf("n%d takes itself for the leader of epoch %d", k.who, k.e)
	}
	return m.tellMore(s, t, by.kind, a, b, c)
}

func (m *rules) tellMore(s, t *state, what kind, a, b, c int) string {
	switch what {
	case kGrant:
		return fmt.Sprintf("n%d (epoch %d) stores and sends grant %s", a, t.slot[b].e, t.name(c))
	case kAccept:
		return fmt.Sprintf("n%d stores grant %s: acks of %s", a, t.name(c), nodes(ackers(t.granted, c)))
	case kRenew:
		return fmt.Sprintf("n%d (epoch %d) renews %s for a repeated request", a, t.slot[b].e, t.name(c))
	case kExtend:
		return fmt.Sprintf("n%d stores the renewal of %s in epoch %d: acks of %s", a, t.name(c), t.slot[b].e, nodes(ackers(t.renewed[b], c)))
	case kHand:
		return fmt.Sprintf("n%d (epoch %d) hands out %s", a, t.slot[b].e, t.name(c))
	case kRelease:
		return fmt.Sprintf("n%d (epoch %d) releases %s", a, t.slot[b].e, t.name(c))
	case kFree:
		return fmt.Sprintf("n%d stores the release of %s of epoch %d", a, t.name(c), t.slot[b].e)
	case kOver:
		return fmt.Sprintf("%s is over: its worker has stopped, nodes may take it for lapsed", t.name(c))
	case kFact:
		return fmt.Sprintf("n%d stores the completion and names proposals %s%s", a, s.epochs(m.open(s, a)), withAcknowledged(s, t))
	case kDrop:
		return fmt.Sprintf("n%d, promise %d, has read epoch %d and drops its data", a, s.node[a].p, t.slot[b].e)
	case kFollow:
		return fmt.Sprintf("n%d takes the claims of the leader of epoch %d: it holds %s", a, t.slot[b].e, m.holds(t, a))
	case kRestart:
		return fmt.Sprintf("n%d restarts: promise %d, it holds %s", a, t.node[a].p, m.holds(t, a))
	}
	return "?"
}

// epochs writes the epochs of a mask of slots.
func (s *state) epochs(mask uint8) string {
	var out []string
	for k := range slots {
		if mask>>k&1 != 0 {
			out = append(out, fmt.Sprint(s.slot[k].e))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

func withDone(facts uint8) string {
	if facts&unionDone != 0 {
		return " and the completion"
	}
	return ""
}

func withAcknowledged(s, t *state) string {
	if s.flags&acknowledged == 0 && t.flags&acknowledged != 0 {
		return "; a coordinator acknowledges it"
	}
	return ""
}

// holds writes what a node has.
func (m *rules) holds(s *state, n int) string {
	switch v := &s.node[n]; {
	case v.flags&present == 0:
		return "nothing"
	case v.flags&done != 0:
		return "the completion"
	default:
		return s.show(v.k)
	}
}

// describe writes a state in one line.
func (m *rules) describe(s *state) string {
	out := fmt.Sprintf("register epoch %d", s.slot[s.cell].e)
	for n := range m.cfg.Nodes {
		out += fmt.Sprintf("; n%d promise %d %s", n, s.node[n].p, m.holds(s, n))
	}
	for c := range claims {
		if s.handed>>c&1 != 0 && s.over>>c&1 == 0 {
			out += "; " + s.name(c) + " is with a worker"
		}
	}
	if s.flags&acknowledged != 0 {
		out += "; the completion is acknowledged"
	}
	return out
}
