package client

import (
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Filter selects tasks for [Client.List], [Client.CancelWhere] and
// [Client.RetryWhere]. All conditions that are set must hold.
type Filter struct {
	// Queue is "" for all queues.
	Queue string
	// States is empty for all states. CancelWhere and RetryWhere have states of
	// their own then.
	States []nornv1.State
	// Kind is what is to be done.
	Kind string
	// Tags are those that the task must have.
	Tags []string
	// CreatedBefore and CreatedAfter bound the time of the enqueue; zero: not.
	CreatedBefore, CreatedAfter time.Time
	// FinishedBefore and FinishedAfter bound when the task was completed, died or
	// was cancelled; zero: not.
	FinishedBefore, FinishedAfter time.Time
	// ErrorContains is text in the task's error, case sensitive.
	ErrorContains string
	// PayloadContains is text in its payload, case sensitive. No index has it, nor what
	// PayloadPaths asks for: payloads are read, so many bytes per page.
	PayloadContains string
	// PayloadPaths are values in a payload that is JSON: by path, such as user.id or
	// items.0.sku, the text, number, true, false or null that is there.
	PayloadPaths map[string]string
	// Headers are those that the task must have, with these values.
	Headers map[string]string
	// MinAttempts is how many attempts it has used at least.
	MinAttempts int
	// Key is its unique key.
	Key string
	// Worker has it under a claim now.
	Worker string
	// DependsOn is a task that it depends on. With States of which none is a finished one an index
	// has them.
	DependsOn id.ID

	// Limit is the most tasks to return; 0: all.
	Limit int
	// PageSize is how many are asked for at once; 0: the server's 100.
	PageSize int
	// IDsOnly gives id, queue and state of each task and nothing else.
	IDsOnly bool
	// Looked, if set, hears of each page that [Client.List] reads how far it has come.
	Looked func(Progress)
}

// Progress is how far a list has come.
type Progress struct {
	// LookedAt is how many tasks were looked at so far.
	LookedAt uint64
	// Reached is an instant before which all tasks have been looked at, by the time in their
	// IDs; zero at the end.
	Reached time.Time
}

// Scans tells whether the filter has conditions that payloads are read for.
func (f *Filter) Scans() bool { return f.PayloadContains != "" || len(f.PayloadPaths) > 0 }

// conditions are those beyond queue and states; nil when there are none.
func (f *Filter) conditions() *nornv1.Filter {
	if f.CreatedBefore.IsZero() && f.CreatedAfter.IsZero() && f.FinishedBefore.IsZero() && f.FinishedAfter.IsZero() &&
		f.Kind == "" && len(f.Tags) == 0 && !f.Scans() && f.ErrorContains == "" && len(f.Headers) == 0 && f.MinAttempts <= 0 && f.Key == "" && f.Worker == "" && f.DependsOn.IsZero() {
		return nil
	}
	var on []byte
	if !f.DependsOn.IsZero() {
		on = f.DependsOn.Bytes()
	}
	return &nornv1.Filter{
		CreatedBefore: stampOf(f.CreatedBefore), CreatedAfter: stampOf(f.CreatedAfter),
		FinishedBefore: stampOf(f.FinishedBefore), FinishedAfter: stampOf(f.FinishedAfter),
		ErrorContains: f.ErrorContains, Headers: f.Headers, MinAttempts: uint32(max(f.MinAttempts, 0)),
		Key: f.Key, Worker: f.Worker, Kind: f.Kind, Tags: f.Tags,
		PayloadContains: f.PayloadContains, PayloadPaths: f.PayloadPaths, DependsOn: on,
	}
}

// request asks for the first page.
func (f *Filter) request() *nornv1.ListRequest {
	return &nornv1.ListRequest{Queue: f.Queue, States: f.States, Filter: f.conditions(), IdsOnly: f.IDsOnly}
}
