package peer

import (
	"container/list"
	"context"
	"net/netip"
	"sync"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// joinsUnreached is how many requests to join may be under way, for each one that may be
// decided, whose nodes have not been dialled back: they cost a goroutine and a connection.
const joinsUnreached = 8

// joins are the requests to join that are being decided: those whose node is still being
// dialled back, which anybody can ask for, and those whose node was reached where it says it
// is. Where there is no room the eldest of the address with the most gives way, so that no
// stranger keeps others out.
type joins struct {
	most [2]int // in each list

	mu    sync.Mutex   // guards what follows
	lists [2]list.List // of *joining, the eldest first: not reached yet, and reached
}

// joining is one of them.
type joining struct {
	from  netip.Addr // zero: it has none
	end   context.CancelCauseFunc
	which int           // of the lists
	at    *list.Element // nil: it has given way, or has left
}

// errGaveWay ends a request to join.
var errGaveWay = refuse(nornv1.PeerRefusal_PEER_REFUSAL_BUSY, "too many requests to join are being decided, and the eldest one gave way to another: try again")

// enter takes a request; end is called when it has to give way.
func (j *joins) enter(from netip.Addr, end context.CancelCauseFunc) *joining {
	o := &joining{from: from, end: end}
	j.put(o, 0)
	return o
}

// reached notes that a node was found where it says it is.
func (j *joins) reached(o *joining) { j.put(o, 1) }

func (j *joins) put(o *joining, which int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if which == 1 && (o.at == nil || o.which == 1) {
		return // it has given way, or was reached already
	}
	j.remove(o)
	if l := &j.lists[which]; l.Len() >= j.most[which] {
		victim := j.victim(l)
		j.remove(victim)
		victim.end(errGaveWay)
	}
	o.which, o.at = which, j.lists[which].PushBack(o)
}

// leave takes a request out.
func (j *joins) leave(o *joining) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.remove(o)
}

// remove is leave; mu is held.
func (j *joins) remove(o *joining) {
	if o.at != nil {
		j.lists[o.which].Remove(o.at)
		o.at = nil
	}
}

// victim is the eldest of the address with the most; mu is held.
func (j *joins) victim(l *list.List) (eldest *joining) {
	of := make(map[netip.Addr]int)
	most := 0
	for e := l.Front(); e != nil; e = e.Next() {
		from := e.Value.(*joining).from
		of[from]++
		most = max(most, of[from])
	}
	for e := l.Front(); e != nil; e = e.Next() {
		if o := e.Value.(*joining); of[o.from] == most {
			return o
		}
	}
	return nil
}

// open is how many are being decided.
func (j *joins) open() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lists[0].Len() + j.lists[1].Len()
}
