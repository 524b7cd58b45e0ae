package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-dev/norn/register"
)

// TestScripts runs the files of testdata: what members do, as they see it.
//
//	grow N             a group of N nodes
//	join NAME          a node with an empty disk is invited
//	crash|start NAME   power off and on
//	cut|heal [NAME]    no messages to or from a node; all again
//	status NAME WHAT   joining, member, leaving or removed
//	set NAME KEY VALUE a value, written through a node
//	run DURATION       time passes
//	show               how every node sees the group
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newSim(t, 1)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.script(d)
		})
	})
}

func (s *sim) called(name string) *simNode {
	i := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.self.Node == name })
	if i < 0 {
		s.t.Fatalf("there is no %s", name)
	}
	return s.nodes[i]
}

func (s *sim) script(d *datadriven.TestData) string {
	arg := func(i int) string {
		if i >= len(d.CmdArgs) {
			d.Fatalf(s.t, "an argument is missing")
		}
		return d.CmdArgs[i].String()
	}
	switch d.Cmd {
	case "grow":
		var n int
		_, _ = fmt.Sscan(arg(0), &n)
		s.grow(n)
	case "join":
		n := s.add(s.name(len(s.nodes) + 1))
		n.self.Node = arg(0)
		s.invite(s.leader(), n.join())
	case "crash":
		s.called(arg(0)).crash()
		return ""
	case "start":
		s.called(arg(0)).start()
		return ""
	case "cut":
		for _, n := range s.nodes {
			s.cut[[2]string{arg(0), n.self.Node}], s.cut[[2]string{n.self.Node, arg(0)}] = true, true
		}
		return ""
	case "heal":
		clear(s.cut)
		return ""
	case "status":
		for status := register.Joining; status <= register.Removed; status++ {
			if status.String() == arg(1) {
				return fmt.Sprintf("won %v", s.set(s.leader(), s.called(arg(0)).self, status))
			}
		}
		d.Fatalf(s.t, "no such status")
	case "set":
		var out string
		s.called(arg(0)).ask(value(arg(1), 0, []byte(arg(2))), func(r register.Result) {
			out = fmt.Sprintf("won %v", r.ValuesWon)
			if r.Err != nil {
				out = r.Err.Error()
			}
		})
		s.must(10*time.Second, "answered", func() bool { return out != "" })
		return out
	case "run":
		limit, err := time.ParseDuration(arg(0))
		if err != nil {
			d.Fatalf(s.t, "%v", err)
		}
		s.run(limit, nil)
	case "show":
	default:
		d.Fatalf(s.t, "no such command")
	}
	return s.show()
}

func (s *sim) show() string {
	var b strings.Builder
	list := func(members []register.Member) string {
		var out []string
		for _, m := range members {
			out = append(out, m.Node)
		}
		return strings.Join(out, " ")
	}
	for _, n := range s.nodes {
		if n.machine == nil {
			fmt.Fprintf(&b, "%s: down\n", n.self.Node)
			continue
		}
		st, state := n.machine.Status(), n.machine.State()
		role := "follows " + st.Leader.Node
		switch {
		case st.Leads:
			role = "leads"
		case st.Leader.Node == "":
			role = "knows no leader"
		}
		fmt.Fprintf(&b, "%s: %s, term %d, voters [%s], learners [%s], members [%s]", n.self.Node, role, st.Term, list(st.Voters), list(st.Learners), list(state.Members))
		if len(st.Waiting) > 0 {
			fmt.Fprintf(&b, ", waiting [%s]", list(st.Waiting))
		}
		if st.Refused != 0 {
			fmt.Fprintf(&b, ", refused: %v", st.Refused)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
