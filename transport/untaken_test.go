package transport

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// openedConns collects the connections of a server in the order in which they came.
type openedConns struct {
	mu  sync.Mutex
	all []*Conn
}

func (o *openedConns) add(c *Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, c)
}

// at gives one of them; it has come already.
func (o *openedConns) at(i int) *Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[i]
}

// replies gives a connection so many answers of so many bytes.
func replies(c *Conn, n, size int) {
	for i := range n {
		c.HoldReply(uint64(i)+1, 1, 0, Bytes(make([]byte, size)))
	}
	c.FlushLater()
}

// TestUntakenAnswersShareABudget: what waits for each connection is within its limit, and
// for all together it is too much. The one that most waits for ends, and nobody else.
func TestUntakenAnswersShareABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := &openedConns{}
		h := &handler{open: conns.add, handle: echoFrame}
		srv, ln := serve(t, Config{MaxOutboxBytes: 1 << 20, MaxUntakenBytes: 1 << 20}, h)
		rawTo(t, ln)
		synctest.Wait()
		some := rawTo(t, ln)
		synctest.Wait()
		little := rawTo(t, ln)
		synctest.Wait()
		other := dialTo(t, ln, ClientConfig{})
		synctest.Wait()
		for i, size := range []int{90_000, 50_000, 40_000} { // each ten times
			replies(conns.at(i), 10, size)
			synctest.Wait()
		}
		if got, err := callText(t.Context(), other, strings.Repeat("y", 200_000)); len(got) != 200_000 {
			t.Error(err)
		}
		if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrSlowReader) || !strings.Contains(r[0].Error(), "for all connections") {
			t.Fatalf("closed with %v", r)
		}
		for nc, size := range map[net.Conn]int{some: 50_000, little: 40_000} {
			for range 10 {
				if f := receive(t, nc); len(f.Body) != size {
					t.Errorf("%d of %d bytes", len(f.Body), size)
				}
			}
		}
		synctest.Wait()
		if n := srv.untaken.taken.Load(); n != 0 {
			t.Errorf("%d bytes are never given back", n)
		}
		if len(h.reasons()) != 1 {
			t.Errorf("closed with %v", h.reasons())
		}
	})
}

// TestWhoTakesNothingEndsFirst: many connections that each have little more than is theirs,
// and take nothing, are no reason to end one that is just being given a large answer.
func TestWhoTakesNothingEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 12
		conns := &openedConns{}
		h := &handler{open: conns.add, handle: echoFrame}
		srv, ln := serve(t, Config{MaxUntakenBytes: 1 << 20}, h)
		for i := range many {
			rawTo(t, ln)
			synctest.Wait()
			replies(conns.at(i), 8, 40_000) // the pipe takes 6 of them, the chunk ends with them
			synctest.Wait()
		}
		<-time.After(stuckAfter)
		client := dialTo(t, ln, ClientConfig{})
		for range 3 {
			if got, err := callText(t.Context(), client, strings.Repeat("y", 900_000)); len(got) != 900_000 {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := srv.Conns(); n < 2 || n > many {
			t.Errorf("%d of %d connections are left", n, many+1)
		}
	})
}

// TestOneConnectionMayHaveItsLimit: the budget of all does not take from one that is alone
// what its own limit gives it.
func TestOneConnectionMayHaveItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := &openedConns{}
		h := &handler{open: conns.add}
		srv, ln := serve(t, Config{MaxUntakenBytes: 1 << 20}, h)
		nc := rawTo(t, ln)
		synctest.Wait()
		replies(conns.at(0), 1, 3<<20)
		synctest.Wait()
		if f := receive(t, nc); len(f.Body) != 3<<20 {
			t.Errorf("%d bytes", len(f.Body))
		}
		replies(conns.at(0), 3, 600_000)
		synctest.Wait()
		nc.Close() // with answers that are written and some that wait
		synctest.Wait()
		if n := srv.untaken.taken.Load(); n != 0 {
			t.Errorf("%d bytes are never given back", n)
		}
	})
}

// TestSmallAnswersWeigh: many answers of a few bytes take more memory than their bytes.
func TestSmallAnswersWeigh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := &openedConns{}
		h := &handler{open: conns.add}
		srv, ln := serve(t, Config{MaxUntakenBytes: 64 << 20}, h)
		nc := rawTo(t, ln)
		synctest.Wait()
		replies(conns.at(0), 1, DefaultPipeBuffer) // the pipe is full
		synctest.Wait()
		before := srv.untaken.taken.Load()
		replies(conns.at(0), 10_000, 0)
		if more := srv.untaken.taken.Load() - before; more < 10_000*frameCost {
			t.Errorf("10,000 answers count as %d bytes", more)
		}
		nc.Close()
	})
}

// TestHalfTheBudgetPausesReading: who has answers to take is not given more while the others
// have taken half of what there is for all; who has none is served.
func TestHalfTheBudgetPausesReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := &openedConns{}
		var mu sync.Mutex
		handled := make(map[*Conn]int)
		h := &handler{open: conns.add, handle: func(c *Conn, f Frame) {
			mu.Lock()
			handled[c]++
			mu.Unlock()
			c.Reply(f.Request, 1, 0, Bytes(make([]byte, 50_000)))
		}}
		_, ln := serve(t, Config{MaxUntakenBytes: 1 << 20}, h)
		rawTo(t, ln)
		synctest.Wait()
		replies(conns.at(0), 9, 90_000) // over half
		synctest.Wait()
		greedy := rawTo(t, ln)
		for i := range 100 {
			send(t, greedy, Frame{Request: uint64(i) + 1})
		}
		synctest.Wait()
		mu.Lock()
		n := handled[conns.at(1)]
		mu.Unlock()
		if n < 1 || n > 12 { // the pipe takes 5 of them
			t.Errorf("%d requests were handled of one that takes nothing", n)
		}
		served := rawTo(t, ln)
		for i := range 100 {
			send(t, served, Frame{Request: uint64(i) + 1})
			if f := receive(t, served); f.Request != uint64(i)+1 {
				t.Fatalf("answer %d is for %d", i, f.Request)
			}
		}
		for i := range 100 { // and the greedy one goes on once it takes
			if f := receive(t, greedy); f.Request != uint64(i)+1 {
				t.Fatalf("answer %d is for %d", i, f.Request)
			}
		}
		if r := h.reasons(); len(r) != 0 {
			t.Errorf("closed with %v", r)
		}
	})
}
