package core

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

func (s *claimScript) printf(format string, args ...any) {
	if !s.mute {
		s.out = append(s.out, fmt.Sprintf(format, args...))
	}
}

// collapse says once what was said several times, and how often.
func collapse(lines []string) (all []string) {
	times := map[string]int{}
	for _, l := range lines {
		if times[l]++; times[l] == 1 {
			all = append(all, l)
		}
	}
	for i, l := range all {
		if times[l] > 1 {
			all[i] = fmt.Sprintf("%s (%d times)", l, times[l])
		}
	}
	return all
}

// answers tells what has been answered.
func (s *claimScript) answers() {
	s.asks = slices.DeleteFunc(s.asks, func(a *scriptedAsk) bool {
		reply, ok := s.r.peers[a.node].replies[a.from]
		if !ok {
			return false
		}
		if reply.Err != nil {
			s.printf("%s: %s", a.name, kindName(reply.Err.Kind))
			return true
		}
		switch m := reply.Message.(type) {
		case *nornv1.ClaimReply:
			s.printf("%s: %s", a.name, s.grants(m.Grants))
			for _, g := range m.Grants {
				task, err := id.Parse(g.Task.Id)
				s.r.check(err)
				s.tokens[s.names[task]] = g.Token
			}
		case *nornv1.RenewReply:
			s.printf("%s: %s", a.name, outcome(m.Results[0].Error))
		case *nornv1.WriteReply:
			s.printf("%s: %s", a.name, outcome(m.Results[0].Error))
		}
		return true
	})
}

func outcome(e *nornv1.Error) string {
	if e == nil {
		return "done"
	}
	text := kindName(e.Kind)
	if e.Effect == nornv1.Effect_EFFECT_UNKNOWN {
		text += ", its effect is unknown"
	}
	return text
}

func kindName(k nornv1.ErrorKind) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(k.String(), "ERROR_KIND_")), "_", " ")
}

func (s *claimScript) grants(all []*nornv1.Grant) string {
	var text []string
	for _, g := range all {
		task, err := id.Parse(g.Task.Id)
		s.r.check(err)
		text = append(text, s.token(task, g.Token))
	}
	if len(text) == 0 {
		return "nothing"
	}
	return strings.Join(text, ", ")
}

// token is a claim: its task, the epoch, counted from the first of the file, and the
// number in it.
func (s *claimScript) token(task id.ID, token uint64) string {
	return fmt.Sprintf("%s#%d.%d", s.names[task], token>>32-s.epoch, token&0xffffffff)
}

func (s *claimScript) refs(all []message.GrantRef) (text []string) {
	for _, g := range all {
		text = append(text, s.token(g.Task, g.Token))
	}
	return text
}

// held tells of claims as they travel.
func (s *claimScript) held(b []byte) (text []string) {
	if b == nil {
		return nil
	}
	all, err := vnode.DecodeHeld(b)
	s.r.check(err)
	for _, h := range all {
		what := "renew "
		switch {
		case h.Released:
			what = "release "
		case h.Record.End-h.Record.Start == int64(h.Record.Lease):
			what = "grant "
		}
		text = append(text, what+s.token(h.Task, h.Record.Token))
	}
	return text
}

func (s *claimScript) parts(all []message.PartClaims) (text []string) {
	for _, p := range all {
		if p.Partition == 1 {
			text = append(text, s.held(p.Claims)...)
		}
	}
	return text
}

func messageName(l letter) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", l.message), "*message.")
}

var factNames = map[crdt.Kind]string{crdt.KindEnqueued: "enqueued", crdt.KindCompleted: "completed", crdt.KindFailed: "failed", crdt.KindExpired: "expired"}

// line is a message as files show it; of elections that of the tasks' partition.
func (s *claimScript) line(l letter) string {
	var text []string
	switch m := l.message.(type) {
	case *message.Claims:
		text = s.parts(m.Parts)
	case *message.ClaimsTaken:
		text = s.taken(m)
	case *message.AskOrphans:
		text = s.parts(m.Parts)
	case *message.NotHeld:
		text = s.parts(m.Parts)
	case *message.ReclaimLease:
		text = s.parts(m.Parts)
	case *message.QueueHeads:
		for _, h := range m.Heads {
			news := map[bool]string{true: "there is work", false: "there is none"}[h.Ready]
			if h.Asks {
				news = "what is there?"
			}
			text = append(text, news)
		}
		text = slices.Compact(text)
	case *message.Forward:
		text = []string{strings.TrimSuffix(string(m.Body.ProtoReflect().Descriptor().Name()), "Request")}
	case *message.Forwarded:
		text = s.forwarded(m)
	case *message.Dropped:
		text = s.refs(m.Grants)
	case *message.AbandonClaims:
		for _, k := range m.Asks {
			text = append(text, fmt.Sprintf("request %d", k.Request))
		}
	case *message.Facts:
		for _, p := range m.Parts {
			for _, f := range p.Facts {
				text = append(text, fmt.Sprintf("%s %s", s.names[f.Task], factNames[f.Key.Kind]))
			}
		}
	default:
		text = s.electing(l.message)
	}
	line := fmt.Sprintf("%s -> %s %s", s.letter(l.from), s.letter(l.to), messageName(l))
	if len(text) > 0 {
		line += ": " + strings.Join(text, ", ")
	}
	return line
}

func (s *claimScript) taken(m *message.ClaimsTaken) (text []string) {
	for _, p := range m.Parts {
		if p.No {
			text = append(text, fmt.Sprintf("no, the promise is %d", p.Promise-s.epoch))
			continue
		}
		text = append(text, "taken")
		for _, r := range p.Refused {
			why := "but " + r.Verdict.String()
			if r.Claim != nil {
				why += fmt.Sprintf(" (%s, %v left)", strings.Join(s.held(r.Claim), ""), r.Left.Round(100*time.Millisecond))
			}
			text = append(text, why)
		}
	}
	for _, p := range m.Facts {
		for _, f := range p.Facts {
			text = append(text, fmt.Sprintf("%s %s", s.names[f.Task], factNames[f.Key.Kind]))
		}
	}
	return text
}

func (s *claimScript) forwarded(m *message.Forwarded) []string {
	if m.Err != nil {
		return []string{kindName(m.Err.Kind)}
	}
	switch a := m.Message.(type) {
	case *nornv1.ClaimReply:
		return []string{s.grants(a.Grants)}
	case *nornv1.RenewReply:
		return []string{outcome(a.Results[0].Error)}
	case *nornv1.WriteReply:
		return []string{outcome(a.Results[0].Error)}
	}
	return nil
}

func (s *claimScript) electing(m message.PeerMessage) (text []string) {
	vote := func(v message.Vote) {
		if v.Partition == 1 {
			kind := map[bool]string{true: "pre-vote", false: "vote"}[v.Pre]
			text = append(text, fmt.Sprintf("%s for epoch %d %s, promise %d", kind, v.Epoch-s.epoch, map[bool]string{true: "granted", false: "refused"}[v.Granted], v.Promise-s.epoch))
		}
	}
	switch m := m.(type) {
	case *message.Ballots:
		for _, b := range m.Ballots {
			if b.Partition == 1 {
				text = append(text, fmt.Sprintf("%s for epoch %d", map[bool]string{true: "pre-vote", false: "ballot"}[b.Pre], b.Epoch-s.epoch))
			}
		}
	case *message.Votes:
		for _, v := range m.Votes {
			if vote(v.Vote); v.Partition == 1 {
				text = append(text, s.held(v.Claims)...)
			}
		}
	case *message.Pushes:
		for _, p := range m.Pushes {
			if p.Partition == 1 {
				text = append(text, fmt.Sprintf("epoch %d", p.Epoch-s.epoch))
				text = append(text, s.held(p.Claims)...)
			}
		}
	case *message.PushesTaken:
		for _, v := range m.Votes {
			vote(v)
		}
	case *message.Elect:
		for _, e := range m.Stand {
			text = append(text, fmt.Sprintf("stand after epoch %d", e.Epoch-s.epoch))
		}
	}
	return text
}

// TestEveryFaultHasAFile: nodes fall before and after what a claim, its end, a vote or a
// push has them write is on their disks, with nothing said; clocks are set ahead and
// back, and disks stall, under claims and under elections. Messages have a test of
// their own, below; what else a node writes for another (TakenBack, Dropped, Unheld,
// Unanswered) is a release.
func TestEveryFaultHasAFile(t *testing.T) {
	claims, elections := readFiles(t, "testdata/claims/faults"), readFiles(t, "testdata/claims/faults_election")
	has := func(in, pattern string) {
		t.Helper()
		if !regexp.MustCompile(`(?m)^` + pattern).MatchString(in) {
			t.Errorf("no file has: %s", pattern)
		}
	}
	for _, when := range []string{"before", "after"} {
		for _, what := range []string{"deliver Claims", "claim", "renew", "release", "complete", "fail"} {
			has(claims, what+` .*fall=`+when)
		}
		for _, what := range []string{"deliver Ballots", "deliver Pushes", "deliver Votes"} {
			has(elections, what+` .*fall=`+when)
		}
	}
	for _, in := range []string{claims, elections} {
		for _, pattern := range []string{`clock \w ahead=\d`, `clock \w ahead=-`, `stall \w$`, `stall \w over`} {
			has(in, pattern)
		}
		if strings.Contains(in, "it writes nothing") {
			t.Error("a node falls that has nothing to write")
		}
	}
}

func readFiles(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// elsewhere are messages that are no part of claims and elections, and what has files,
// models or tests of their own for them.
var elsewhere = map[string]string{
	"Facts": "shown here; writes: cluster_test.go", "FactsTaken": "the same", "Repair": "antientropy/testdata",
	"Beat": "clocks_test.go", "Beaten": "the same", "DurabilityEpoch": "marks_test.go", "Work": "session/testdata",
	"Fetch": "route_test.go", "Fetched": "the same", "Watch": "watch_test.go", "Outcomes": "the same",
	"RepairCompleted": "purge_test.go", "Purge": "the same", "QuarantineFacts": "aside_test.go", "Cells": "dismiss_test.go",
}

// TestEveryMessageHasAFile: each message of claims and elections between nodes, and each
// verdict on a claim, is in a file; each message is lost, comes twice and comes late in one.
func TestEveryMessageHasAFile(t *testing.T) {
	files, source := readFiles(t, "testdata/claims/*"), readFiles(t, "message/*.go")
	kinds := regexp.MustCompile(`(?m)^func \(\*(\w+)\) peerMessage\(\)`).FindAllStringSubmatch(source, -1)
	if len(kinds) < 25 {
		t.Fatalf("only %d messages were found", len(kinds))
	}
	for _, k := range kinds {
		if elsewhere[k[1]] != "" {
			continue
		}
		for _, fault := range []string{"drop", "duplicate", "delay", "deliver"} {
			if !regexp.MustCompile(`(?m)^` + fault + ` ` + k[1] + `\b`).MatchString(files) {
				t.Errorf("no file has: %s %s", fault, k[1])
			}
		}
	}
	if none := regexp.MustCompile(`(?m)^no \w+ is on its way`).FindString(files); none != "" {
		t.Errorf("a file has: %s", none)
	}
	for v := vnode.Lacking; uint32(v) <= message.MaxVerdict; v++ {
		if !strings.Contains(files, "but "+v.String()) {
			t.Errorf("no file has a claim that is %s", v)
		}
	}
}
