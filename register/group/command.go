package group

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// Limits of the replicated part.
const (
	// maxCommand is the size of a proposal in bytes. A change of all 4,096
	// cells is about 150 kB.
	maxCommand = 1 << 20
	// window is how many proposals one session may have under way.
	window = 256
	// maxSessions are remembered; the one not heard of for longest goes first.
	// A session is one life of one process, so an old copy of its proposal
	// would have to travel for as long as a thousand restarts.
	maxSessions = 1024
)

const (
	commandVersion  = 1
	snapshotVersion = 1
)

// command is one entry of the log. Session and seq name a proposal once and for
// all, floor says that all before it are settled.
type command struct {
	session, seq, floor uint64
	request             register.Request
}

func (c *command) encode() []byte {
	var w wire.Writer
	w.Byte(commandVersion)
	w.Uint(c.session)
	w.Uint(c.seq)
	w.Uint(c.floor)
	register.AppendRequest(&w, &c.request)
	return w.B
}

func decodeCommand(b []byte) (c command, err error) {
	r := wire.NewReader(b)
	switch v := r.Byte(); {
	case v > commandVersion:
		r.Newer()
	case v < commandVersion:
		r.Fail()
	}
	c.session, c.seq, c.floor = r.Uint(), r.Uint(), r.Uint()
	c.request = register.ReadRequest(r)
	return c, r.End()
}

// session is what is remembered of one proposer.
type session struct {
	used  uint64            // index of its last entry
	floor uint64            // everything before is settled and forgotten
	done  map[uint64][]bool // what came of the proposals from floor on
}

// replica is what every node of the group holds the same: the register and,
// for each proposer, which proposals were decided how. It is a function of the
// log.
type replica struct {
	state    register.State
	sessions map[uint64]*session
}

func newReplica(state register.State) replica {
	return replica{state: state, sessions: map[uint64]*session{}}
}

// decision is what became of an entry.
type decision struct {
	command
	wins    []bool // of the first time; nil when they are forgotten
	changed bool
	again   bool // it was decided before, and is not decided again
}

// apply decides the command of one entry. Bytes that are no command decide
// nothing, on every node alike. It returns wire.ErrNewer for a command of a newer
// build: whoever passed it over would hold another register than those who know it.
func (p *replica) apply(index uint64, b []byte) (decision, error) {
	c, err := decodeCommand(b)
	if errors.Is(err, wire.ErrNewer) {
		return decision{}, fmt.Errorf("%w: entry %d in the log of the register's group", err, index)
	}
	if err != nil {
		return decision{again: true}, nil
	}
	s := p.sessions[c.session]
	if s == nil {
		s = &session{done: map[uint64][]bool{}}
		p.sessions[c.session] = s
		defer p.evict()
	}
	s.used = index
	if wins, done := s.done[c.seq]; done || c.seq < s.floor || len(s.done) >= 2*window {
		return decision{command: c, wins: wins, again: true}, nil
	}
	next, res, changed := p.state.Apply(&c.request)
	p.state = next
	s.done[c.seq] = winsOf(&res)
	s.settle(c.floor)
	return decision{command: c, wins: s.done[c.seq], changed: changed}, nil
}

func (s *session) settle(floor uint64) {
	if floor <= s.floor {
		return
	}
	s.floor = floor
	for seq := range s.done { // Any order: each is judged alone.
		if seq < floor {
			delete(s.done, seq)
		}
	}
}

func (p *replica) evict() {
	for len(p.sessions) > maxSessions {
		var oldest uint64
		first := true
		for id, s := range p.sessions { // Any order: no two were used by one entry.
			if first || s.used < p.sessions[oldest].used {
				oldest, first = id, false
			}
		}
		delete(p.sessions, oldest)
	}
}

// winsOf and resultOf turn a result into one list and back.
func winsOf(r *register.Result) []bool {
	wins := append(slices.Concat(r.Won, r.QueuesWon, r.NodesWon, r.ValuesWon, r.SchedulesWon, r.NamesWon), r.PlanWon, r.MasterWon)
	if r.ReplicasWon || len(r.AccessWon) > 0 { // else the snapshot is that of builds that did not know them
		wins = append(append(wins, r.ReplicasWon), r.AccessWon...)
	}
	return wins
}

func resultOf(q *register.Request, wins []bool, s register.State) register.Result {
	r := register.Result{Tag: q.Tag, State: s}
	for _, part := range []struct {
		to *[]bool
		n  int
	}{{&r.Won, len(q.Changes)}, {&r.QueuesWon, len(q.Queues)}, {&r.NodesWon, len(q.Nodes)}, {&r.ValuesWon, len(q.Values)}, {&r.SchedulesWon, len(q.Schedules)}, {&r.NamesWon, len(q.Names)}} {
		*part.to = make([]bool, part.n)
		wins = wins[copy(*part.to, wins):]
	}
	r.PlanWon, r.MasterWon = len(wins) > 0 && wins[0], len(wins) > 1 && wins[1]
	r.ReplicasWon = len(wins) > 2 && wins[2]
	r.AccessWon = make([]bool, len(q.Access))
	copy(r.AccessWon, wins[min(len(wins), 3):])
	return r
}

// encode writes the replica: the data of a snapshot. Equal replicas give equal
// bytes.
func (p *replica) encode() []byte {
	var w wire.Writer
	w.Byte(snapshotVersion)
	w.Uint(uint64(len(p.sessions)))
	for _, id := range slices.Sorted(maps.Keys(p.sessions)) {
		s := p.sessions[id]
		w.Uint(id)
		w.Uint(s.used)
		w.Uint(s.floor)
		w.Uint(uint64(len(s.done)))
		for _, seq := range slices.Sorted(maps.Keys(s.done)) {
			w.Uint(seq)
			w.Uint(uint64(len(s.done[seq])))
			for _, won := range s.done[seq] {
				w.Bool(won)
			}
		}
	}
	register.AppendState(&w, &p.state)
	return w.B
}

func decodeReplica(b []byte) (replica, error) {
	r := wire.NewReader(b)
	p := newReplica(register.State{})
	switch v := r.Byte(); {
	case v > snapshotVersion:
		r.Newer()
	case v < snapshotVersion:
		r.Fail()
	}
	for range r.Count(maxSessions) {
		id := r.Uint()
		s := &session{used: r.Uint(), floor: r.Uint(), done: map[uint64][]bool{}}
		for range r.Count(2 * window) {
			seq := r.Uint()
			wins := make([]bool, r.Count(maxCommand))
			for i := range wins {
				wins[i] = r.Bool()
			}
			s.done[seq] = wins
		}
		p.sessions[id] = s
	}
	p.state = register.ReadState(r)
	if err := r.End(); err != nil {
		return replica{}, fmt.Errorf("%w: snapshot of the register", err)
	}
	return p, nil
}
