package peer

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"
)

// stranger is what a node is before it has joined.
func stranger(c *Config) { c.Cluster = register.UUID{} }

func recordOf(i int, addresses ...string) register.Node {
	return register.Node{Member: who(i, 0), Addresses: addresses, Zone: "z", Weight: 2}
}

// TestJoin: the joiner is dialled back while it waits, and talks to the others
// once it knows its cluster.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		secret := func(c *Config) { c.Secrets = []string{"s"} }
		a, b := w.add(who(1, 0), secret), w.add(who(2, 0), secret, stranger)
		defer a.stop()
		defer b.stop()
		want := JoinReply{
			Cluster: register.Cluster{ID: testCluster, Partitions: 64, Replicas: 3}, Generation: 4, By: who(1, 0),
			Members: []register.Node{{Member: who(1, 0), Addresses: []string{"n1", "m1"}, Zone: "y", Weight: 1, Status: register.Active}, recordOf(2, "n2")},
		}
		var asked JoinRequest
		a.join = func(ctx context.Context, r JoinRequest) (JoinReply, error) {
			asked = r
			r.Reached()
			time.Sleep(20 * time.Second) // it takes its time
			back, err := a.Dialer().Probe(ctx, r.Node.Addresses[0])
			if err != nil || back.Member != r.Node.Member || back.Cluster != (register.UUID{}) || back.MaxVersion != MaxVersion {
				t.Errorf("dialled back: %+v, %v", back, err)
			}
			return want, nil
		}
		got, err := b.Dialer().Join(t.Context(), []string{"nobody", "n2", "n1"}, JoinRequest{Node: recordOf(2, "n2"), Build: "x"})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v", got, err)
		}
		if asked.Node.Member != who(2, 0) || asked.Node.Zone != "z" || asked.Node.Weight != 2 || asked.Remote == "" || asked.MaxVersion != MaxVersion {
			t.Errorf("asked: %+v", asked)
		}
		if b.Send(who(1, 0), numbered(1)); a.taken() != nil {
			t.Error("a node without a cluster was let in")
		}
		settle(3 * time.Second)
		b.SetCluster(got.Cluster.ID)
		settle(3 * time.Second)
		b.Send(who(1, 0), numbered(2))
		a.Send(who(2, 0), numbered(3))
		settle(time.Second)
		if x, y := numbers(a.taken()), numbers(b.taken()); len(x) != 1 || x[0] != 2 || len(y) != 1 || y[0] != 3 {
			t.Errorf("a got %v, b %v", x, y)
		}
		id, err := a.Dialer().Probe(t.Context(), "n2")
		if err != nil || id.Cluster != testCluster {
			t.Errorf("%+v, %v", id, err)
		}
	})
}

func TestJoinsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0), func(c *Config) { c.Secrets = []string{"s"} }), w.add(who(2, 0), stranger)
		defer a.stop()
		defer b.stop()
		a.join = func(_ context.Context, r JoinRequest) (JoinReply, error) {
			if r.Node.Node == "n8" {
				return JoinReply{}, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "the name is taken")
			}
			return JoinReply{}, errors.New("no majority of the register")
		}
		member, plain := Dialer{Security: Security{Secrets: []string{"s"}}, Dial: w.dial}, Dialer{Dial: w.dial}
		for _, c := range []struct {
			name string
			d    Dialer
			at   []string
			r    JoinRequest
			is   error
			kind nornv1.ErrorKind
			says string
		}{
			{name: "no address", d: member, is: ErrNoAddress},
			{name: "nobody there", d: member, at: []string{"x"}, says: "connection refused"},
			{name: "secret", d: plain, at: []string{"n1"}, r: JoinRequest{Node: recordOf(3)}, is: ErrSecret},
			{name: "itself", d: member, at: []string{"n1"}, r: JoinRequest{Node: recordOf(1)}, is: ErrSelf},
			{name: "other cluster", d: member, at: []string{"n1"}, r: JoinRequest{Node: recordOf(3), Cluster: register.UUID{8}}, is: ErrOtherCluster},
			{name: "no member", d: plain, at: []string{"n2"}, r: JoinRequest{Node: recordOf(3)}, is: ErrNotReady},
			{name: "no name", d: member, at: []string{"n1"}, is: ErrMalformed, says: "without a name"},
			{name: "its reason", d: member, at: []string{"n1"}, r: JoinRequest{Node: recordOf(8)}, kind: nornv1.ErrorKind_ERROR_KIND_CONFLICT, says: "the name is taken"},
			{name: "a passing reason", d: member, at: []string{"n1"}, r: JoinRequest{Node: recordOf(3)}, kind: nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, says: "no majority"},
			{name: "several", d: member, at: []string{"x", "n1"}, r: JoinRequest{Node: recordOf(8)}, kind: nornv1.ErrorKind_ERROR_KIND_CONFLICT, says: "connection refused"},
		} {
			_, err := c.d.Join(t.Context(), c.at, c.r)
			var known *proto.Error
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || c.kind != 0 && (!errors.As(err, &known) || known.Kind != c.kind) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if _, err := plain.Probe(t.Context(), "n1"); !errors.Is(err, ErrSecret) {
			t.Errorf("probe without the secret: %v", err)
		}
		if i, err := member.Probe(t.Context(), "n1"); err != nil || i.Member != who(1, 0) {
			t.Errorf("probe: %+v, %v", i, err)
		}
	})
}

// TestJoinsAreBounded in number and in time, and end with their connection. Who was dialled
// back has more of it, and the eldest gives way.
func TestJoinsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.add(who(1, 0), func(c *Config) { c.Limits.Joins = 2 })
		defer a.stop()
		var mu sync.Mutex // guards ended
		ended := map[string]time.Duration{}
		began := time.Now()
		a.join = func(ctx context.Context, r JoinRequest) (JoinReply, error) {
			if r.Node.Zone != "silent" {
				r.Reached()
			}
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			ended[r.Node.Node] = time.Since(began)
			return JoinReply{}, ctx.Err()
		}
		answers := map[int]chan error{}
		short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ask := func(ctx context.Context, i int, zone string) {
			answers[i] = make(chan error, 1)
			go func() {
				node := recordOf(i)
				node.Zone = zone
				_, err := Dialer{Dial: w.dial}.Join(ctx, []string{"n1"}, JoinRequest{Node: node})
				answers[i] <- err
			}()
			settle(100 * time.Millisecond)
		}
		ask(t.Context(), 2, "")
		ask(short, 3, "")
		ask(t.Context(), 4, "")
		if err := <-answers[2]; !errors.Is(err, ErrBusy) {
			t.Errorf("the eldest: %v", err)
		}
		ask(t.Context(), 5, "silent")
		if err := <-answers[3]; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gave up: %v", err)
		}
		if err := <-answers[5]; err == nil || !strings.Contains(err.Error(), "--peer-advertise") {
			t.Errorf("who was not reached: %v", err)
		}
		if err := <-answers[4]; err == nil || !strings.Contains(err.Error(), "deadline exceeded") {
			t.Errorf("who waited: %v", err)
		}
		settle(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if ended["n3"] > 11*time.Second || ended["n4"] < time.Minute || ended["n5"] > 11*time.Second || len(ended) != 4 {
			t.Errorf("ended after %v", ended)
		}
		if n := a.joins.open(); n != 0 {
			t.Errorf("%d places are still taken", n)
		}
	})
}

// TestStrangersThatAskToJoinKeepNobodyOut: hundreds ask and cannot be dialled back. Who can
// is let in all the same, and they do not pile up.
func TestStrangersThatAskToJoinKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.add(who(1, 0))
		defer a.stop()
		var mu sync.Mutex // guards most
		most := 0
		a.join = func(ctx context.Context, r JoinRequest) (JoinReply, error) {
			mu.Lock()
			most = max(most, a.joins.open())
			mu.Unlock()
			if r.Node.Zone == "silent" {
				<-ctx.Done()
				return JoinReply{}, ctx.Err()
			}
			time.Sleep(20 * time.Millisecond) // to be dialled back
			r.Reached()
			time.Sleep(2 * time.Second) // to be written into the register
			return JoinReply{By: who(1, 0), Cluster: register.Cluster{ID: testCluster, Partitions: 1, Replicas: 1}}, ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 500 {
			go func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				node := recordOf(100 + i)
				node.Zone = "silent"
				_, _ = Dialer{Dial: w.dial}.Join(ctx, []string{"n1"}, JoinRequest{Node: node})
			}()
		}
		for i := range 10 {
			settle(300 * time.Millisecond)
			if _, err := (Dialer{Dial: w.dial}).Join(t.Context(), []string{"n1"}, JoinRequest{Node: recordOf(2 + i)}); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		mu.Lock()
		if limit := (joinsUnreached + 1) * a.cfg.Limits.Joins; most < 64 || most > limit {
			t.Errorf("%d at once, at most %d", most, limit)
		}
		mu.Unlock()
		cancel()
		settle(time.Second)
	})
}

// TestWhoGivesWayToJoin: the eldest of the address with the most, so that one address takes
// places from itself.
func TestWhoGivesWayToJoin(t *testing.T) {
	j := joins{most: [2]int{4, 2}}
	var gone []string
	enter := func(name, from string) *joining {
		return j.enter(netip.MustParseAddr(from), func(error) { gone = append(gone, name) })
	}
	real := enter("real", "10.0.0.1")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		enter(name, "10.0.0.9")
	}
	if want := []string{"a", "b"}; !slices.Equal(gone, want) {
		t.Fatalf("%v gave way, not %v", gone, want)
	}
	j.reached(real)
	x, y := enter("x", "10.0.0.9"), enter("y", "10.0.0.9")
	j.reached(x)
	j.reached(y)
	if want := []string{"a", "b", "c", "real"}; !slices.Equal(gone, want) || j.open() != 4 {
		t.Fatalf("%v gave way, not %v, and %d are left", gone, want, j.open())
	}
	j.reached(real) // it has given way
	j.leave(real)
	j.leave(x)
	j.leave(x)
	if j.open() != 3 {
		t.Fatalf("%d are left", j.open())
	}
}

// TestOneRequestPerConnection: more than one first frame ends it.
func TestOneRequestPerConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.add(who(1, 0))
		defer a.stop()
		abandoned := make(chan struct{})
		a.join = func(ctx context.Context, _ JoinRequest) (JoinReply, error) {
			<-ctx.Done()
			close(abandoned)
			return JoinReply{}, ctx.Err()
		}
		nc, err := w.dial(t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		link := transport.NewLink(nc, transport.LinkConfig{})
		join := &nornv1.PeerJoin{MinVersion: MinVersion, MaxVersion: MaxVersion, Node: memberProto(recordOf(3))}
		for range 2 {
			if err := sendProto(link, nornv1.PeerMethod_PEER_METHOD_JOIN, 0, 1, join); err != nil {
				t.Fatal(err)
			}
		}
		var reply nornv1.PeerJoinReply
		if err := link.Read(&question{nornv1.PeerMethod_PEER_METHOD_JOIN, &reply}); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "one request") {
			t.Errorf("answer: %v", err)
		}
		<-abandoned
	})
}
