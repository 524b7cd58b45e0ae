package convert

import (
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// CheckFilter refuses a filter that cannot be meant.
func CheckFilter(f *nornv1.Filter) *proto.Error {
	for _, ts := range []*timestamppb.Timestamp{f.GetCreatedBefore(), f.GetCreatedAfter(), f.GetFinishedBefore(), f.GetFinishedAfter()} {
		if ts != nil && !ts.IsValid() {
			return proto.Invalid("the filter has a time that is none")
		}
	}
	if n := len(f.GetHeaders()); n > proto.MaxHeaders {
		return proto.Invalid("the filter has %d headers, over the limit of %d", n, proto.MaxHeaders)
	}
	if n := len(f.GetDependsOn()); n != 0 && n != id.Size {
		return proto.Invalid("depends_on of the filter has %d bytes, not %d", n, id.Size)
	}
	if err := proto.CheckKind(f.GetKind()); err != nil {
		return err
	}
	if err := proto.CheckTags(f.GetTags()); err != nil {
		return err
	}
	return checkSought(f)
}

// SpecMatches tells whether a task can fit the filter, from its spec alone.
func SpecMatches(f *nornv1.Filter, e *crdt.Enqueued) bool {
	if f == nil {
		return true
	}
	if f.GetKey() != "" && e.Key != f.GetKey() {
		return false
	}
	if on := f.GetDependsOn(); len(on) > 0 && !slices.Contains(e.Dependencies, id.ID(on)) {
		return false
	}
	if f.GetKind() != "" && proto.KindOf(e.Further) != f.GetKind() {
		return false
	}
	if len(f.GetTags()) > 0 {
		tags := proto.TagsOf(e.Further)
		for _, t := range f.GetTags() {
			if !slices.Contains(tags, t) {
				return false
			}
		}
	}
	// Any order: all must be there.
	for k, v := range f.GetHeaders() {
		at, ok := slices.BinarySearchFunc(e.Headers, k, func(h crdt.Header, k string) int { return strings.Compare(h.Key, k) })
		if !ok || e.Headers[at].Value != v {
			return false
		}
	}
	return true
}

// Matches tells whether a task whose spec fits meets the rest of the filter.
func Matches(f *nornv1.Filter, d *vnode.Detail) bool {
	if f == nil {
		return true
	}
	t := d.Task
	finished := t.FinishedAt()
	switch {
	case !within(t.Admission(), f.GetCreatedAfter(), f.GetCreatedBefore()),
		(f.GetFinishedAfter() != nil || f.GetFinishedBefore() != nil) && (finished == 0 || !within(finished, f.GetFinishedAfter(), f.GetFinishedBefore())),
		f.GetErrorContains() != "" && !strings.Contains(t.Error(), f.GetErrorContains()),
		uint32(t.Attempts()) < f.GetMinAttempts():
		return false
	}
	return f.GetWorker() == "" || slices.ContainsFunc(d.Claims, func(r claim.Record) bool {
		return r.Outcome == claim.Active && r.Worker == f.GetWorker()
	})
}

// within compares as times: one of the year 9999, which is how some say "for ever", is no
// number of nanoseconds.
func within(wall int64, after, before *timestamppb.Timestamp) bool {
	at := time.Unix(0, wall)
	return (after == nil || at.After(after.AsTime())) && (before == nil || at.Before(before.AsTime()))
}

// Listed is a task of a list.
func Listed(d *vnode.Detail, idsOnly bool) *nornv1.Task {
	if idsOnly {
		return &nornv1.Task{Id: d.Task.ID.String(), Queue: d.Task.Enqueued.Queue, State: nornv1.State(d.State)}
	}
	return Task(d, proto.MaxUpdatesInList)
}
