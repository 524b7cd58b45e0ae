package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

var phases = [...]string{Note: "note", Invoke: "invoke", OK: "ok", Fail: "fail", Info: "info"}

// String is the phase as a word.
func (p Phase) String() string {
	if int(p) < len(phases) {
		return phases[p]
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// String is the event as one line for people.
func (e *Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%13.6fs", time.Duration(e.At).Seconds())
	if e.Phase == Note {
		fmt.Fprintf(&b, " ------ %s", e.Text)
		return b.String()
	}
	fmt.Fprintf(&b, " p%-3d %-6s %s #%d", e.Process, e.Phase, e.Func, e.Op)
	if e.Session != 0 {
		fmt.Fprintf(&b, " request %x/%d", e.Session>>48, e.Request)
	}
	if len(e.Queues) > 0 {
		fmt.Fprintf(&b, " queues %v", e.Queues)
	}
	if e.Func == Claim && e.Phase == Invoke {
		fmt.Fprintf(&b, " max %d wait %v lease %v", e.Max, time.Duration(e.Wait), time.Duration(e.Lease))
	}
	if len(e.Only) > 0 {
		fmt.Fprintf(&b, " only %v", e.Only)
	}
	if e.After != nil {
		fmt.Fprintf(&b, " after %x/%d", e.After.Token, e.After.Seq)
	}
	if e.Change != nil {
		fmt.Fprintf(&b, " %+v", *e.Change)
	}
	for i := range e.Items {
		e.Items[i].write(&b)
	}
	for _, t := range e.Tallies {
		fmt.Fprintf(&b, " {%s %v}", t.Queue, t.Counts)
	}
	if e.Weak {
		b.WriteString(" weak")
	}
	if e.From != nil {
		fmt.Fprintf(&b, " from %s", e.From)
	}
	if e.Cell != nil {
		fmt.Fprintf(&b, " %s", e.Cell)
	}
	if e.Error != "" || e.Text != "" {
		fmt.Fprintf(&b, " %s %s", e.Error, e.Text)
	}
	return b.String()
}

// String is the cell in a few words.
func (c *Cell) String() string {
	return fmt.Sprintf("cell %d epoch %d leader %s nonce %x", c.Partition, c.Epoch, c.Leader, c.Nonce)
}

func (i *Item) write(b *strings.Builder) {
	fmt.Fprintf(b, " [%s", i.Task)
	if i.Token != 0 {
		fmt.Fprintf(b, " token %x", i.Token)
	}
	if i.Seq != 0 || i.Data != 0 {
		fmt.Fprintf(b, " seq %d", i.Seq)
	}
	if s := i.Spec; s != nil {
		fmt.Fprintf(b, " queue %s prio %d", s.Queue, s.Priority)
		if s.NotBefore != 0 {
			fmt.Fprintf(b, " not-before %d", s.NotBefore)
		}
		if len(s.Deps) > 0 {
			fmt.Fprintf(b, " deps %v %s", s.Deps, s.OnFailure)
		}
		if s.Key != "" {
			fmt.Fprintf(b, " key %s window %v", s.Key, time.Duration(s.Window))
		}
	}
	if i.State != "" {
		fmt.Fprintf(b, " %s", i.State)
	}
	if i.Until != 0 {
		fmt.Fprintf(b, " until %.6fs", time.Duration(i.Until).Seconds())
	}
	for _, f := range []struct {
		set  bool
		name string
	}{{i.Existed, "existed"}, {i.Uncounted, "uncounted"}, {i.Discard, "discard"}, {i.Auto, "auto-seq"}, {i.Output, "output"}} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	for _, c := range i.Claims {
		fmt.Fprintf(b, " (%x %s %s)", c.Token, c.Worker, c.Outcome)
	}
	for _, e := range i.Log {
		fmt.Fprintf(b, " <%x/%d>", e.Token, e.Seq)
	}
	if len(i.Reasons) > 0 {
		fmt.Fprintf(b, " because %v", i.Reasons)
	}
	if i.Unsure {
		b.WriteString(" unsure")
	}
	if i.Error != "" || i.Text != "" {
		fmt.Fprintf(b, " %s %q", i.Error, i.Text)
	}
	b.WriteString("]")
}

// Write writes events as JSON, one per line.
func Write(to io.Writer, events []*Event) error {
	out := json.NewEncoder(to)
	for _, e := range events {
		if err := out.Encode(e); err != nil {
			return fmt.Errorf("history: %w", err)
		}
	}
	return nil
}

// Read is the inverse of [Write]: it calls fn for every event until it returns
// false.
func Read(from io.Reader, fn func(*Event) bool) error {
	in := json.NewDecoder(bufio.NewReader(from))
	for {
		e := &Event{}
		switch err := in.Decode(e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("history: %w", err)
		}
		if !fn(e) {
			return nil
		}
	}
}
