package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// cellOp is a read or a swap of a cell with what came of it.
type cellOp struct {
	process    int
	swap       bool
	phase      history.Phase
	call, back int64
	from, cell *history.Cell // cell: read, or wanted; of a failed swap see found
	found      *history.Cell // what a failed swap has found, nil if it was not told
}

// cellBook gathers what is done to the register.
type cellBook struct{ ops []cellOp }

// add takes in an operation on a cell. One that was refused for another reason
// than the cell's value says nothing.
func (b *cellBook) add(asked, e *history.Event) {
	op := cellOp{process: asked.Process, swap: asked.Func == history.CellSwap, phase: e.Phase, call: asked.At, back: e.At, from: asked.From, cell: e.Cell}
	switch {
	case op.swap:
		op.cell, op.found = asked.Cell, e.Cell
		if op.cell == nil || op.from == nil || e.Phase == history.Fail && e.Error != "" && e.Error != "CONFLICT" {
			return
		}
		if e.Phase == history.Info {
			op.back = never
		}
	case e.Phase != history.OK || op.cell == nil:
		return
	}
	b.ops = append(b.ops, op)
}

// cellKey is a cell as a value. The nonce alone would do where all is well.
type cellKey struct {
	epoch, nonce uint64
	leader       string
}

func keyOf(c *history.Cell) cellKey { return cellKey{c.Epoch, c.Nonce, c.Leader} }

func (k cellKey) String() string {
	return fmt.Sprintf("epoch %d leader %s nonce %x", k.epoch, k.leader, k.nonce)
}

// byPartition gives the operations of each cell.
func (b *cellBook) byPartition() (partitions []int, ops map[int][]cellOp) {
	ops = map[int][]cellOp{}
	for _, op := range b.ops {
		ops[op.cell.Partition] = append(ops[op.cell.Partition], op)
	}
	return slices.Sorted(maps.Keys(ops)), ops
}

// chains (I6): the values of a cell form a chain in which epochs rise; an epoch
// has one leader and one nonce; no value is followed by two. Judged are the
// swaps that succeeded.
func (l *Ledger) chains() Result {
	r := Result{Checker: "cells"}
	partitions, ops := l.cells.byPartition()
	for _, p := range partitions {
		epochs, nexts := map[uint64]cellKey{}, map[cellKey]cellKey{}
		see := func(when int64, c *history.Cell) {
			if c == nil {
				return
			}
			if o, known := epochs[c.Epoch]; known && o != keyOf(c) {
				r.add(Register, when, id.ID{}, "partition %d, epoch %d has two values: %v and %v", p, c.Epoch, o, keyOf(c))
			}
			epochs[c.Epoch] = keyOf(c)
		}
		for _, op := range ops[p] {
			switch {
			case !op.swap:
				see(op.back, op.cell)
			case op.phase == history.OK:
				r.Judged++
				see(op.back, op.from)
				see(op.back, op.cell)
				from, to := keyOf(op.from), keyOf(op.cell)
				if to.epoch <= from.epoch {
					r.add(Register, op.back, id.ID{}, "partition %d: process %d set its cell from %v to %v, which is no higher", p, op.process, from, to)
				}
				if o, twice := nexts[from]; twice {
					r.add(Register, op.back, id.ID{}, "partition %d: %v was followed by %v and by %v", p, from, o, to)
				}
				nexts[from] = to
			case op.phase == history.Fail:
				see(op.back, op.found)
			}
		}
	}
	return r
}

// cellState is a cell as far as it is known: at the beginning nobody knows.
type cellState struct {
	known bool
	key   cellKey
}

// compareAndSet is the register of one partition: linearizable reads, and
// swaps from exactly one value.
var compareAndSet = porcupine.Model{
	Init: func() any { return cellState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, op := state.(cellState), input.(cellOp)
		want := keyOf(op.cell)
		switch {
		case !op.swap:
			return !s.known || s.key == want, cellState{true, want}
		case op.phase == history.OK:
			return !s.known || s.key == keyOf(op.from), cellState{true, want}
		case op.phase == history.Info: // it has happened now, or does nothing any more
			if s.known && s.key == keyOf(op.from) {
				return true, cellState{true, want}
			}
			return true, s
		case op.found != nil:
			return (!s.known || s.key == keyOf(op.found)) && keyOf(op.found) != keyOf(op.from), cellState{true, keyOf(op.found)}
		}
		return !s.known || s.key != keyOf(op.from), s
	},
	DescribeOperation: func(input, _ any) string { return input.(cellOp).String() },
}

// linear (I6) searches for an order of all operations on a cell, with
// porcupine. Judged are the partitions.
func (l *Ledger) linear() Result {
	r := Result{Checker: "register"}
	partitions, ops := l.cells.byPartition()
	for _, p := range partitions {
		r.Judged++
		switch porcupine.CheckOperationsTimeout(compareAndSet, searchable(ops[p]), l.o.Search) {
		case porcupine.Illegal:
			last := slices.MaxFunc(ops[p], func(a, b cellOp) int { return cmp.Compare(a.call, b.call) })
			r.add(Register, last.call, id.ID{}, "partition %d: no order of the %d operations on its cell explains what they found: %s", p, len(ops[p]), cellTale(ops[p]))
		case porcupine.Unknown:
			r.Unknown++
		}
	}
	return r
}

// String tells an operation on a cell.
func (op cellOp) String() string {
	if !op.swap {
		return fmt.Sprintf("process %d read %v from %s to %s", op.process, keyOf(op.cell), at(op.call), at(op.back))
	}
	s := fmt.Sprintf("process %d swapped %v for %v from %s to %s: %s", op.process, keyOf(op.from), keyOf(op.cell), at(op.call), at(op.back), op.phase)
	if op.found != nil {
		s += fmt.Sprintf(", found %v", keyOf(op.found))
	}
	return s
}

// cellTale is the last dozen of a cell's operations.
func cellTale(ops []cellOp) string {
	ops = slices.Clone(ops)
	slices.SortStableFunc(ops, func(a, b cellOp) int { return cmp.Compare(a.call, b.call) })
	var lines []string
	for _, op := range ops[max(len(ops)-12, 0):] {
		lines = append(lines, op.String())
	}
	return strings.Join(lines, "; ")
}

// searchable prepares a cell's operations for the search. A swap whose outcome
// is unknown came, if anybody has seen its value, before that; and if nobody
// has, it matters only where another swap from the same value found that gone.
// (As etcd's robustness tests bound what is unknown by what was persisted.)
func searchable(ops []cellOp) (out []porcupine.Operation) {
	seen, gone := map[cellKey]int64{}, map[cellKey]bool{}
	see := func(c *history.Cell, back int64) {
		if c == nil {
			return
		}
		if t, ok := seen[keyOf(c)]; !ok || back < t {
			seen[keyOf(c)] = back
		}
	}
	for _, op := range ops {
		switch {
		case !op.swap:
			see(op.cell, op.back)
		case op.phase == history.OK:
			see(op.from, op.back)
		case op.phase == history.Fail:
			see(op.found, op.back)
			gone[keyOf(op.from)] = true
		}
	}
	for _, op := range ops {
		if op.phase == history.Info {
			back, ok := seen[keyOf(op.cell)]
			if !ok && !gone[keyOf(op.from)] {
				continue
			}
			if ok && back >= op.call {
				op.back = back
			}
		}
		out = append(out, porcupine.Operation{ClientId: op.process, Input: op, Call: op.call, Return: op.back})
	}
	return out
}
