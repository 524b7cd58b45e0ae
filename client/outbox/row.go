package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// row is a task on its way into the table, or out of it.
type row struct {
	id       id.ID
	queue    string
	priority int32
	payload  []byte
	options  []byte // JSON, nil when there is nothing else to say
	created  int64  // ms since 1970
	attempts int    // how often the cluster has refused it before
}

// size is about what the row weighs in a statement or a request, in bytes.
func (r *row) size() int { return len(r.payload) + len(r.options) + 200 }

// options is the JSON of the column of that name: what has no column of its own.
// Programs in other languages may write it.
type options struct {
	NotBefore           time.Time         `json:"not_before,omitzero"`
	Dependencies        []id.ID           `json:"dependencies,omitempty"`
	OnDependencyFailure string            `json:"on_dependency_failure,omitempty"`
	Retry               *retry            `json:"retry,omitempty"`
	Headers             map[string]string `json:"headers,omitempty"`
	Key                 string            `json:"key,omitempty"`
	KeyWindowSeconds    float64           `json:"key_window_seconds,omitempty"`
	Kind                string            `json:"kind,omitempty"`
	Tags                []string          `json:"tags,omitempty"`
}

// retry is norn.v1.RetryPolicy.
type retry struct {
	MaxAttempts    uint32  `json:"max_attempts,omitempty"`
	InitialSeconds float64 `json:"initial_seconds,omitempty"`
	MaxSeconds     float64 `json:"max_seconds,omitempty"`
	Multiplier     float64 `json:"multiplier,omitempty"`
	Jitter         float64 `json:"jitter,omitempty"`
}

// failurePolicies are the values of on_dependency_failure; "" is cancel too.
var failurePolicies = []struct {
	name  string
	value nornv1.DependencyFailure
}{
	{"cancel", nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL},
	{"run", nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN},
	{"wait", nornv1.DependencyFailure_DEPENDENCY_FAILURE_WAIT},
}

// check finds what the cluster would refuse, while the transaction can still
// do something about it. The payload limit of the cluster is not known here:
// the highest that can be configured holds.
func check(t *client.Task) error {
	s := &nornv1.TaskSpec{
		Id: t.ID.Bytes(), Queue: t.Queue, Payload: t.Payload, Priority: t.Priority,
		OnDependencyFailure: t.OnDependencyFailure, Retry: t.Retry, Headers: t.Headers,
		Key: t.Key, KeyWindowSeconds: t.KeyWindow.Seconds(), Kind: t.Kind, Tags: t.Tags,
	}
	if !t.NotBefore.IsZero() {
		s.NotBefore = timestamppb.New(t.NotBefore)
	}
	for _, d := range t.Dependencies {
		s.Dependencies = append(s.Dependencies, d.Bytes())
	}
	if err := proto.CheckSpec(s, proto.MaxPayloadCeiling); err != nil {
		return fmt.Errorf("%w: %w", ErrTask, err)
	}
	want := id.KindTask
	if t.Key != "" {
		want = id.KindKey
	}
	if t.ID.Kind() != want {
		return fmt.Errorf("%w: ID %s is of a kind that clients do not give such a task", ErrTask, t.ID)
	}
	// Any order: one bad header is enough.
	for k, v := range t.Headers {
		if strings.ToValidUTF8(k, "") != k || strings.ToValidUTF8(v, "") != v {
			return fmt.Errorf("%w: header %.60q is not UTF-8", ErrTask, k)
		}
	}
	if strings.ToValidUTF8(t.Key, "") != t.Key {
		return fmt.Errorf("%w: unique key %.60q is not UTF-8", ErrTask, t.Key)
	}
	return nil
}

// encode makes the row of a checked task.
func encode(t *client.Task, now time.Time) (row, error) {
	r := row{id: t.ID, queue: t.Queue, priority: t.Priority, payload: t.Payload, created: now.UnixMilli()}
	if r.payload == nil {
		r.payload = []byte{} // nil would be NULL
	}
	o := options{
		Dependencies: t.Dependencies, Headers: t.Headers, Key: t.Key, KeyWindowSeconds: t.KeyWindow.Seconds(),
		Kind: t.Kind, Tags: t.Tags,
	}
	if !t.NotBefore.IsZero() {
		o.NotBefore = t.NotBefore.UTC().Round(0)
	}
	for _, p := range failurePolicies {
		if p.value == t.OnDependencyFailure && p.value != 0 {
			o.OnDependencyFailure = p.name
		}
	}
	if p := t.Retry; p != nil {
		o.Retry = &retry{p.GetMaxAttempts(), p.GetInitialSeconds(), p.GetMaxSeconds(), p.GetMultiplier(), p.GetJitter()}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return row{}, fmt.Errorf("%w: %w", ErrTask, err)
	}
	if string(text) != "{}" {
		r.options = text
	}
	return r, nil
}

// decode reads a task out of a row. The error is ErrTask: such a row can never
// be enqueued.
func decode(r *row) (client.Task, error) {
	t := client.Task{ID: r.id, Queue: r.queue, Priority: r.priority, Payload: r.payload}
	if len(r.options) > 0 {
		var o options
		d := json.NewDecoder(bytes.NewReader(r.options))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			return t, fmt.Errorf("%w: options: %w", ErrTask, err)
		}
		if d.More() {
			return t, fmt.Errorf("%w: options: something follows the JSON object", ErrTask)
		}
		t.NotBefore, t.Dependencies, t.Headers, t.Key = o.NotBefore, o.Dependencies, o.Headers, o.Key
		t.KeyWindow, t.Kind, t.Tags = proto.Seconds(o.KeyWindowSeconds), o.Kind, o.Tags
		known := o.OnDependencyFailure == ""
		for _, p := range failurePolicies {
			if p.name == o.OnDependencyFailure {
				t.OnDependencyFailure, known = p.value, true
			}
		}
		if !known {
			return t, fmt.Errorf("%w: options: on_dependency_failure %q is not cancel, run or wait", ErrTask, o.OnDependencyFailure)
		}
		if p := o.Retry; p != nil {
			t.Retry = &nornv1.RetryPolicy{
				MaxAttempts: p.MaxAttempts, InitialSeconds: p.InitialSeconds, MaxSeconds: p.MaxSeconds,
				Multiplier: p.Multiplier, Jitter: p.Jitter,
			}
		}
	}
	return t, check(&t)
}

// short is an error as it is kept in the table: one line, no longer than a
// person wants to read.
func short(err error) string {
	const most = 1000
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(err.Error(), "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
