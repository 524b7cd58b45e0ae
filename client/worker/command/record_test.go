package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client/worker"
)

// TestLinesGoTogether: what a command prints while something is written goes in one request,
// in order; each line is an update.
func TestLinesGoTogether(t *testing.T) {
	o, e := runOver(t, &outcomeOf{slow: 300 * time.Millisecond}, Config{}, "seq 1 5000", nil)
	var want []string
	for n := range 5000 {
		want = append(want, fmt.Sprint(n+1))
	}
	if !slices.Equal(o.updates, want) || e.Kind != worker.Completed || o.done.GetSeq() != 5000 {
		t.Errorf("%d updates, %+v, completed with %v", len(o.updates), e, o.done)
	}
	if o.requests > 500 {
		t.Errorf("%d requests for 5000 lines", o.requests)
	}
}

// TestAFullLog: past the limit of lines the first and the last ones are kept, the log says
// how many are missing between them, and the worker says so once.
func TestAFullLog(t *testing.T) {
	var said lines
	var told []string
	said.take = func(line []byte) { told = append(told, string(line)) }
	o, e := runOver(t, &outcomeOf{room: 700}, Config{Stderr: &said}, "seq 1 5000; sleep 0.1; echo the end", nil)
	if e.Kind != worker.Completed || len(o.updates) != 700+1+maxHeld || o.done.GetSeq() != uint64(len(o.updates)) {
		t.Fatalf("%d updates, %+v, completed with %v", len(o.updates), e, o.done)
	}
	if o.updates[699] != "700" || o.updates[700] != "output: norn: 3301 lines of output are left out here" || o.updates[701] != "4002" || o.updates[len(o.updates)-1] != "the end" {
		t.Errorf("the log has %q", []string{o.updates[699], o.updates[700], o.updates[701], o.updates[len(o.updates)-1]})
	}
	if len(told) != 1 || !strings.Contains(told[0], "its log is full") {
		t.Errorf("it said %q", told)
	}
}
