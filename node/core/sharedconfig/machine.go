package sharedconfig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// commonValue is where the register keeps what is to be configured alike on all nodes.
const commonValue = "config"

// Env is what this node goes by.
type Env struct {
	*ground.Ground
	// Retention is that of queues that do not say.
	Retention retention.Rule
	// Buffer is that of the configuration of the node.
	Buffer time.Duration
	// Write tells whether the register is to say what this node goes by, if it leads it.
	Write bool
	// Send asks the register for a change.
	Send func(register.Request, func(clock.Time, register.Result))
}

// New has not compared yet.
func New(env Env) *Machine { return &Machine{Env: env} }

// Machine compares what is to be configured alike on all nodes. Whoever leads the register
// writes there what it goes by; a node that differs says so, and of the default retention
// it goes by the longer one. Else what others keep for a day it would collect at once, and
// its tombstone take back the retry that they acknowledge ([retention.Machine.Buried], which goes by
// the shorter one).
type Machine struct {
	Env

	// Diff is what this node has otherwise; empty: nothing.
	Diff string
	// Asked is the version that this node has asked to follow, plus one; 0: none.
	Asked uint64

	text string // of the register
	is   retention.Rule
}

// own is what this node goes by, one setting a line.
func (m *Machine) own() string {
	r := &m.Retention
	return fmt.Sprintf("retention-policy=%v\nretention=%v\ndead-retention=%v\ngc-grace=%v\neta=%v\nbuffer=%v\n",
		strings.ToLower(strings.TrimPrefix(r.What.String(), "RETENTION_")), r.After, r.Dead, m.GCGrace, m.Eta, m.Buffer)
}

// Compare takes over what the register says; leads: this node leads it.
func (m *Machine) Compare(leads bool) {
	v := m.View.State.Values[commonValue]
	if text := string(v.Data); text != m.text {
		m.text, m.is = text, retention.Rule{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch d, _ := time.ParseDuration(value); name {
			case "retention-policy":
				m.is.What = nornv1.Retention(nornv1.Retention_value["RETENTION_"+strings.ToUpper(value)])
			case "retention":
				m.is.After = d
			case "dead-retention":
				m.is.Dead = d
			}
		}
		m.Diff = m.Differs()
	}
	if !leads || !m.Write || m.Asked == v.Version+1 || m.text == m.own() {
		return
	}
	m.Asked = v.Version + 1
	m.Send(register.Request{Values: []register.ValueChange{{Name: commonValue, Old: v.Version, Data: []byte(m.own())}}}, func(_ clock.Time, r register.Result) {
		if r.Err != nil {
			m.Asked = 0 // with what is heard next
		}
	})
}

// Differs says what this node has been configured with that the register has otherwise.
// A node that is alone is the one that wrote it, with what it went by before.
func (m *Machine) Differs() string {
	shared := func(c register.Cell) bool { return len(c.Cohort) > 1 }
	if !m.View.Company() && !slices.ContainsFunc(m.View.State.Cells, shared) {
		return ""
	}
	var all []string
	other := strings.Split(m.text, "\n")
	for i, line := range strings.Split(m.own(), "\n") {
		if i < len(other) && line != other[i] && line != "" {
			all = append(all, fmt.Sprintf("%s here, %s in the register", line, other[i]))
		}
	}
	return strings.Join(all, "; ")
}

// Rule is for how long finished tasks stay unless their queue says otherwise, by
// this node or by the one that leads the register: the longer, or the shorter of both.
func (m *Machine) Rule(longer bool) retention.Rule {
	own, is := m.Env.Retention, m.is
	if is.What == nornv1.Retention_RETENTION_UNSPECIFIED {
		return own
	}
	pick := func(a, b int64) int64 {
		if longer {
			return max(a, b)
		}
		return min(a, b)
	}
	endless := func(d time.Duration) int64 { return int64(cmp.Or(d, math.MaxInt64)) }
	dead := time.Duration(pick(endless(own.Dead), endless(is.Dead)))
	if dead == math.MaxInt64 {
		dead = 0
	}
	order := []nornv1.Retention{nornv1.Retention_RETENTION_DELETE, nornv1.Retention_RETENTION_ARCHIVE, nornv1.Retention_RETENTION_KEEP}
	at := pick(int64(slices.Index(order, own.What)), int64(slices.Index(order, is.What)))
	return retention.Rule{What: order[max(0, at)], After: time.Duration(pick(int64(own.After), int64(is.After))), Dead: dead}
}
