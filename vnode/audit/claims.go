package audit

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/index"
)

// claims checks what is stored of claims: one has ended or it has not, none is
// held on a task that is finished, and nothing is left of those of a collected
// one. A claim may be on a task of which nothing else is here.
func (a *audit) claims() error {
	for c, err := range a.each(index.Active) {
		if err != nil {
			return err
		}
		if c.record.Outcome != claim.Active {
			return fmt.Errorf("%w: claim %x on %s has ended (%d) and is held", vnode.ErrDamaged, c.record.Token, c.task, c.record.Outcome)
		}
		if _, both := a.view.Get(index.AppendClaim(nil, index.Ended, a.p, c.task, c.record.Token)); both {
			return fmt.Errorf("%w: claim %x on %s is held and among those that have ended", vnode.ErrDamaged, c.record.Token, c.task)
		}
		t, err := vnode.LoadOutcome(a.view, a.p, c.task)
		if err != nil {
			return err
		}
		if t.Finished() {
			return fmt.Errorf("%w: claim %x is held on %s, which is %s", vnode.ErrDamaged, c.record.Token, c.task, t.Outcome())
		}
	}
	if err := a.suspended(); err != nil {
		return err
	}
	for c, err := range a.each(index.Ended) {
		if err != nil {
			return err
		}
		if c.record.Outcome == claim.Active {
			return fmt.Errorf("%w: claim %x on %s is among those that have ended, and has not", vnode.ErrDamaged, c.record.Token, c.task)
		}
		if vnode.Collected(a.view, a.p, c.task) {
			return fmt.Errorf("%w: claim %x is left of %s, which was collected", vnode.ErrDamaged, c.record.Token, c.task)
		}
	}
	return nil
}

// suspended checks that the claims which may come back are among those that have
// ended, of tasks that a retry may give a new run.
func (a *audit) suspended() error {
	all, err := vnode.Suspended(a.view, a.p)
	if err != nil {
		return err
	}
	for _, h := range all {
		t, err := vnode.LoadOutcome(a.view, a.p, h.Task)
		if err != nil {
			return err
		}
		if !t.Undoable() {
			return fmt.Errorf("%w: claim %x on %s is suspended, and the task is %s", vnode.ErrDamaged, h.Record.Token, h.Task, t.Outcome())
		}
	}
	return nil
}

type auditedClaim struct {
	task   id.ID
	record claim.Record
}

// each walks the claims of a table. They are read first, because the checks read
// through the same view.
func (a *audit) each(table byte) iter.Seq2[auditedClaim, error] {
	var all []auditedClaim
	var bad error
	prefix := index.AppendPrefix(nil, table, a.p)
	for key, value := range a.view.Scan(prefix, index.After(prefix)) {
		if len(key) != index.PrefixSize+id.Size+8 {
			bad = fmt.Errorf("%w: claim key %x", vnode.ErrDamaged, key)
			break
		}
		r, err := claim.DecodeRecord(binary.BigEndian.Uint64(key[len(key)-8:]), value)
		if err != nil {
			bad = fmt.Errorf("%w: claim key %x: %w", vnode.ErrDamaged, key, err)
			break
		}
		all = append(all, auditedClaim{id.ID(key[index.PrefixSize:]), r})
	}
	return func(yield func(auditedClaim, error) bool) {
		if bad != nil {
			yield(auditedClaim{}, bad)
			return
		}
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
	}
}
