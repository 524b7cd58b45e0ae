package register

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/norn-dev/norn/store"
)

// ErrClosed is returned when the register was closed before it answered.
var ErrClosed = errors.New("register: closed")

// ErrNotFormatted is returned when the store holds no register.
var ErrNotFormatted = errors.New("register: the store holds no register")

var stateKey = []byte("register/state")

// Local is the register of a cluster of one.
type Local struct {
	store store.Store

	mu     sync.Mutex // guards everything below
	state  State
	watch  []func(State)
	closed bool
}

// Format writes the first state of a register. It happens once in the life of
// a cluster, never because nobody answered.
func Format(s store.Store, c Cluster, self Member) error {
	state := First(c, Node{Member: self})
	return write(s, &state)
}

// OpenLocal opens the register in a store that [Format] has prepared. It
// returns ErrNotFormatted when there is none.
func OpenLocal(s store.Store) (*Local, error) {
	state, err := ReadLocal(s)
	if err != nil {
		return nil, err
	}
	return &Local{store: s, state: state}, nil
}

// ReadLocal gives the state that a [Local] has written. It returns
// ErrNotFormatted when there is none.
func ReadLocal(v store.View) (state State, err error) {
	b, ok := v.Get(stateKey)
	if !ok {
		return State{}, ErrNotFormatted
	}
	if err := json.Unmarshal(b, &state); err != nil {
		return State{}, fmt.Errorf("register: damaged state: %w", err)
	}
	if n := len(state.Cells); n != state.Cluster.Partitions {
		return State{}, fmt.Errorf("register: damaged state: %d cells for %d partitions", n, state.Cluster.Partitions)
	}
	return state, nil
}

func write(s store.Store, state *State) error {
	b, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	var batch store.Batch
	batch.Set(stateKey, b)
	s.Commit(&batch)()
	return nil
}

// Do decides the request at once and makes it durable before it answers.
func (l *Local) Do(r Request, done func(Result)) {
	res, watch := l.decide(r)
	done(res)
	for _, fn := range watch {
		fn(res.State)
	}
}

func (l *Local) decide(r Request) (Result, []func(State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Result{Tag: r.Tag, Err: ErrClosed}, nil
	}
	next, res, changed := l.state.Apply(&r)
	if !changed {
		return res, nil
	}
	if err := write(l.store, &next); err != nil {
		res.Err = err
		return res, nil
	}
	l.state = next
	return res, slices.Clone(l.watch)
}

// Subscribe has fn called after each change.
func (l *Local) Subscribe(fn func(State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = append(l.watch, fn)
}

// Cluster is which cluster it is of, and how many partitions and replicas that has.
func (l *Local) Cluster() Cluster {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Cluster
}

// Members gives the members.
func (l *Local) Members() []Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.state.Members)
}

// Close refuses further requests. The store is the caller's to close.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
