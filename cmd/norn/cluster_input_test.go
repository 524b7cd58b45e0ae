package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// stranger makes a process that is no member yet, and not looked after with the
// others.
func (c *company) stranger(name string, seeds ...string) *process {
	p := &process{name: name, data: filepath.Join(c.dir, "stranger-"+name), listen: freeAddress(c.t), peer: freePeerAddress(c.t), args: slices.Clone(c.args)}
	for _, s := range seeds {
		p.args = append(p.args, "--join", s)
	}
	c.t.Cleanup(p.destroy)
	return p
}

// endsAtOnce wants a process to end in order, soon after SIGTERM.
func (p *process) endsAtOnce(t *testing.T) {
	t.Helper()
	began := time.Now()
	p.stop(t)
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("%s took %v to end", p.name, d)
	}
}

// TestClusterStrangers: nodes that want to join and cannot, each told why. The
// cluster goes on as if nothing had been.
func TestClusterStrangers(t *testing.T) {
	thorough(t)
	c := startCompany(t, 2)
	n1, n2 := c.all[0], c.all[1]
	load := c.produce("q", 5, 20*time.Millisecond)

	t.Run("seeds are down", func(t *testing.T) {
		p := c.stranger("n9", freePeerAddress(t))
		p.launch(t)
		p.says(t, "join.waiting")
		p.says(t, "connection refused")
		p.endsAtOnce(t)
		if strings.Count(p.s.log.String(), "join.waiting") != 1 {
			t.Errorf("it says so more than once:\n%s", p.s.log.String())
		}
	})
	t.Run("the address of another node", func(t *testing.T) {
		p := c.stranger("n9", n1.peer)
		p.launch(t, "--peer-advertise", n2.peer)
		p.says(t, `answers node n2`)
		p.endsAtOnce(t)
	})
	t.Run("the peer port is in use", func(t *testing.T) {
		p := c.stranger("n9", n1.peer)
		p.peer = n2.peer
		p.launch(t)
		if code := p.failed(t); code == 0 || !strings.Contains(p.s.log.String(), "peer port") || !strings.Contains(p.s.log.String(), "address already in use") {
			t.Errorf("it ends with %d: %s", code, p.s.log.String())
		}
	})
	t.Run("another version of the protocol", func(t *testing.T) {
		reply := askToJoin(t, n1.peer, &nornv1.PeerJoin{MinVersion: 7, MaxVersion: 9, Node: &nornv1.PeerMember{
			Node: &nornv1.PeerNode{Name: "future", Incarnation: make([]byte, 16)}, Addresses: []string{"127.0.0.1:1"},
		}})
		if m := reply.GetError().GetMessage(); reply.GetRefusal() != nornv1.PeerRefusal_PEER_REFUSAL_VERSION || !strings.Contains(m, "versions 7 to 9") || !strings.Contains(m, "update the older") {
			t.Errorf("got %v", reply)
		}
		n1.says(t, "the node that dials speaks versions 7 to 9 of the peer protocol")
	})
	t.Run("a member of another cluster", func(t *testing.T) {
		p := c.stranger("n9")
		p.start(t)
		p.stop(t)
		p.launch(t, "--join", n1.peer)
		if code := p.failed(t); code == 0 || !strings.Contains(p.s.log.String(), "another cluster") {
			t.Errorf("it ends with %d: %s", code, p.s.log.String())
		}
		p.start(t) // what it has is still there, and its own
		p.stop(t)
	})
	t.Run("a name in use", func(t *testing.T) {
		p := c.stranger("n2", n1.peer)
		p.launch(t)
		p.says(t, "waits for its place until that is dead")
		n2.kill(t)
		n2.wipe(t)
		if err := p.s.wait(); err != nil {
			t.Fatal(err)
		}
		c.all[1] = p
		c.settled(2)
	})
	load.end(t)
	for _, p := range c.all {
		p.verified(t)
		p.counted(t, "q", uint64(len(load.acked)))
	}
	c.everywhere(load.acked, load.sent)
}

// askToJoin sends a request to join, as a node of another version would.
func askToJoin(t *testing.T, addr string, ask *nornv1.PeerJoin) *nornv1.PeerJoinReply {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	link := transport.NewLink(conn, transport.LinkConfig{HelloTimeout: patience})
	b, err := gproto.Marshal(ask)
	if err == nil {
		err = link.Send(transport.Frame{Request: 1, Method: uint16(nornv1.PeerMethod_PEER_METHOD_JOIN)}, transport.Bytes(b))
	}
	if err != nil {
		t.Fatal(err)
	}
	h := &joinAnswer{}
	err = link.Read(h)
	if h.reply == nil {
		t.Fatalf("no answer: %v", err)
	}
	return h.reply
}

// joinAnswer takes the answer to a request to join.
type joinAnswer struct{ reply *nornv1.PeerJoinReply }

func (h *joinAnswer) Frame(f transport.Frame) error {
	if f.Method != uint16(nornv1.PeerMethod_PEER_METHOD_JOIN) {
		return nil
	}
	h.reply = &nornv1.PeerJoinReply{}
	return gproto.Unmarshal(f.Body, h.reply)
}

func (*joinAnswer) Burst()                         {}
func (*joinAnswer) Damaged(error)                  {}
func (*joinAnswer) Refused(transport.Frame, error) {}

// TestClusterDamage: nodes whose directories are not what they should be. The
// others go on; wiped, or as another incarnation by themselves, they join again.
func TestClusterDamage(t *testing.T) {
	thorough(t)
	c := startCompany(t, 3)
	n2, n3 := c.all[1], c.all[2]
	load := c.produce("q", 5, 20*time.Millisecond)
	load.more(t, 500)

	t.Run("a copy of the directory", func(t *testing.T) {
		p := c.stranger("n3")
		n3.signal(t, syscall.SIGSTOP)
		err := os.CopyFS(p.data, os.DirFS(n3.data))
		n3.signal(t, syscall.SIGCONT)
		if err != nil {
			t.Fatal(err)
		}
		p.launch(t)
		if code := p.failed(t); code == 0 || !strings.Contains(p.s.log.String(), "copy of") {
			t.Errorf("it ends with %d: %s", code, endOf(p.s.log.String(), 4000))
		}
		load.more(t, 200)
		c.settled(3)
	})
	for _, store := range []string{"facts", "register"} {
		t.Run("damaged "+store, func(t *testing.T) {
			n3.kill(t)
			damage(t, filepath.Join(n3.data, store))
			n3.launch(t)
			again := n3.startsAgain(t)
			t.Logf("it starts again by itself: %v", again)
			load.more(t, 100)
			if again { // what is left of its log can be read: it heals by itself
				c.settled(3)
				return
			}
			code := n3.failed(t)
			if log := n3.s.log.String(); code == 0 || !strings.Contains(log, "damaged") && !strings.Contains(log, "has lost what it had acknowledged") {
				t.Errorf("it ends with %d: %s", code, endOf(log, 4000))
			}
			n3.wipe(t)
			n3.start(t)
			c.settled(3)
		})
	}
	t.Run("a full disk", func(t *testing.T) { c.fills(t, n2, load) })
	load.end(t)
	for _, p := range c.all {
		p.verified(t)
		p.counted(t, "q", uint64(len(load.acked)))
	}
	for _, p := range c.all {
		p.stop(t)
		has := p.tasks(t)
		for task := range load.acked { // Any order: all are to be there.
			if !has[task] {
				t.Fatalf("%s lacks %s", p.name, task)
			}
		}
	}
}

// fills has the disk of a node filled up for a while.
func (c *company) fills(t *testing.T, n2 *process, load *producers) {
	t.Helper()
	n2.stop(t)
	n2.start(t, "--disk-reserve", "1048576GiB", "--disk-check-interval", "100ms")
	n2.says(t, "disk.low")
	load.more(t, 300)
	if r := n2.norn(t, "task", "enqueue", "-q", "full", "--timeout", "2s", "x"); r.code == 0 {
		t.Logf("an enqueue through the full node goes to others: %s", r.out)
	} else if r.code != 6 || !strings.Contains(r.err, "disk") {
		t.Errorf("an enqueue through the full node exits with %d: %s", r.code, r.err)
	}
	n2.stop(t)
	n2.start(t)
	c.settled(3)
}

// TestClusterRemoved: a removed node that comes back with its directory is told, hands over
// what it has, and joins anew by itself.
func TestClusterRemoved(t *testing.T) {
	beside(t)
	c := startCompany(t, 3)
	n1, n3 := c.all[0], c.all[2]
	n3.kill(t)
	eventually(t, "n3 can be removed", func() bool { return n1.norn(t, "cluster", "remove", "n3").code == 0 })
	n3.launch(t)
	n3.says(t, "this node was removed from the cluster")
	n3.says(t, "node.joins_anew") // with what it had set aside: it has handed over everything
	c.settled(3)
}

// damage flips bytes in the middle of the files of a store that have its data.
func damage(t *testing.T, dir string) {
	t.Helper()
	var hit int
	for _, pattern := range []string{"*.sst", "*.wal"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			used := len(strings.TrimRight(string(b), "\x00")) // logs are used again
			for i := used / 4; i < min(used/4+64, used/2); i++ {
				b[i] ^= 0xff
				hit++
			}
			if err := os.WriteFile(file, b, 0o640); err != nil {
				t.Fatal(err)
			}
		}
	}
	if hit == 0 {
		t.Fatal("nothing to damage in " + dir)
	}
}
