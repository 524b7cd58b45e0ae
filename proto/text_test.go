package proto

import (
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestBadTextIsFound: a text that is not UTF-8 was refused without a word of where it is.
func TestBadTextIsFound(t *testing.T) {
	spec := &nornv1.TaskSpec{Queue: "q", Headers: map[string]string{"from": "me"}, Payload: []byte{0xff}}
	m := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{}, spec}}
	if got := BadText(m); got != "" {
		t.Errorf("found %q", got)
	}
	spec.Headers["from"] = "\xff"
	if got := BadText(m); got != `tasks[1].headers["from"]` {
		t.Errorf("a value: %q", got)
	}
	spec.Headers = map[string]string{"\xff": "x"}
	if got := BadText(m); got != `tasks[1].headers["\xff"]` {
		t.Errorf("a key: %q", got)
	}
	spec.Headers, spec.Key = nil, "\xfe"
	if got := BadText(m); got != "tasks[1].key" {
		t.Errorf("a field: %q", got)
	}
}
