package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// diligent is a worker that keeps one claim and passes tasks through until it
// is told to stop: what others do must not disturb it.
func diligent(t *testing.T, p *caller) (stop func()) {
	t.Helper()
	p.enqueue(&nornv1.TaskSpec{Queue: "diligent"})
	held := p.claim(&nornv1.ClaimRequest{Queues: []string{"diligent"}, LeaseSeconds: 600})[0] // a busy machine is slow
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for tick := time.Tick(10 * time.Millisecond); ctx.Err() == nil; <-tick { // it leaves the processor to others
			p.enqueue(&nornv1.TaskSpec{Queue: "passing"})
			g := p.claim(&nornv1.ClaimRequest{Queues: []string{"passing"}})
			if len(g) != 1 {
				t.Errorf("a working client claimed %v", g)
				return
			}
			p.retry(nornv1.Method_METHOD_COMPLETE, completion(t, g[0]), &nornv1.WriteReply{})
			reply := &nornv1.RenewReply{}
			p.retry(nornv1.Method_METHOD_RENEW, renewal(t, held), reply)
			if reply.Results[0].Error != nil {
				t.Errorf("a working client's renewal: %v", reply.Results[0].Error)
				return
			}
		}
	})
	return func() {
		t.Helper()
		cancel()
		done.Wait()
		reply := &nornv1.WriteReply{}
		p.retry(nornv1.Method_METHOD_COMPLETE, completion(t, held), reply)
		if reply.Results[0].Error != nil {
			t.Errorf("a working client's claim: %v", reply.Results[0].Error)
		}
		if p.c.Err() != nil {
			t.Errorf("a working client lost its connection: %v", p.c.Err())
		}
	}
}

// TestSlowConnectionsAreCut: connections that are silent, slow or half open
// are closed by the time-outs, over real sockets, while others work. The limits
// hold for those others too: they must be long for a busy machine.
func TestSlowConnectionsAreCut(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	long := frameOf(t, 2, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "slow", Payload: make([]byte, 100_000)}}})
	for name, tc := range map[string]struct {
		greets bool          // says hello first
		sent   []byte        // then this at once
		drip   []byte        // then these, one byte every pause
		idle   time.Duration // IdleTimeout of the server
		tls    bool
	}{
		"no word":              {},
		"half a hello":         {sent: helloFrame(t)[:9]},
		"a dripping hello":     {drip: helloFrame(t)},
		"a frame's length":     {greets: true, sent: long[:4]},
		"half a frame":         {greets: true, sent: long[:len(long)/2]},
		"a dripping frame":     {greets: true, sent: long[:100], drip: long[100:]},
		"a dripping length":    {greets: true, drip: long},
		"a refused frame":      {greets: true, sent: []byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 3}, drip: long},
		"idle":                 {greets: true, idle: limit},
		"no word where TLS is": {tls: true},
		"half a TLS handshake": {tls: true, sent: []byte{22, 3, 1, 2, 0, 1}},
		"a dripping handshake": {tls: true, drip: []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testConfig(t)
			c.HelloTimeout, c.FrameTimeout, c.WriteTimeout, c.IdleTimeout = limit, limit, limit, tc.idle
			o, secure := Options{}, (*tls.Config)(nil)
			if tc.tls {
				o.TLS, secure = certificates(t)
			}
			n := start(t, c, o)
			defer stop(t, n)
			stopWork := diligent(t, connectTLS(t, n, secure))
			began := time.Now() // before the server's time can begin
			nc := socket(t, n)
			if tc.greets {
				began = time.Now()
				greet(t, nc)
			}
			if _, err := nc.Write(tc.sent); err != nil {
				t.Fatal(err)
			}
			go func() {
				tick := time.NewTicker(limit / 10)
				defer tick.Stop()
				for _, b := range tc.drip {
					<-tick.C
					if _, err := nc.Write([]byte{b}); err != nil {
						return
					}
				}
			}()
			if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			answer, err := until(nc)
			if len(answer) > 200 {
				t.Errorf("%d bytes came", len(answer))
			}
			if took := time.Since(began); took < limit*9/10 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection lasted %v, the limit is %v: %v", took, limit, err)
			}
			stopWork()
			soon(t, "only the worker is left", func() bool { return n.server.Conns() == 1 })
		})
	}
}

// TestACancelIsNoHello: a connection on which one came first had no time any more in which a
// hello had to come.
func TestACancelIsNoHello(t *testing.T) {
	c := testConfig(t)
	c.HelloTimeout = time.Hour
	n := start(t, c, Options{})
	defer stop(t, n)
	nc := socket(t, n)
	if _, err := nc.Write(transport.AppendFrame(nil, transport.Frame{Request: 1, Flags: transport.FlagCancel})); err != nil {
		t.Fatal(err)
	}
	if err := nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if answer, err := until(nc); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection goes on, after %q", answer)
	}
}

// until reads to the end of a connection, however it comes.
func until(nc net.Conn) (all []byte, err error) {
	b := make([]byte, 4096)
	for {
		var n int
		n, err = nc.Read(b)
		all = append(all, b[:n]...)
		if err != nil {
			return all, err
		}
	}
}

// TestClientThatDoesNotRead: who asks for much and takes nothing is cut off,
// and a task that was granted behind all that is free at once.
func TestClientThatDoesNotRead(t *testing.T) {
	c := testConfig(t)
	c.WriteTimeout = 5 * time.Second // what is below must have begun by then
	n := start(t, c, Options{})
	defer stop(t, n)
	p := connect(t, n)
	large := taskID(t, p.enqueue(&nornv1.TaskSpec{Queue: "large", Payload: make([]byte, 1<<20)})[0])
	stopWork := diligent(t, p)
	nc := greet(t, socket(t, n))
	var sent []byte
	for i := range 24 { // far more than the system keeps for a socket, and less than stops the reading
		sent = append(sent, frameOf(t, uint64(i)+2, nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: large})...)
	}
	sent = append(sent, frameOf(t, 1000, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"later"}, WaitSeconds: 60})...)
	if _, err := nc.Write(sent); err != nil {
		t.Fatal(err)
	}
	soon(t, "the claim waits", func() bool { return n.metrics.Core.Load().Waiting == 1 })
	p.retry(nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: large}, &nornv1.GetReply{}) // the reads before it have begun
	soon(t, "the answers are on their way", func() bool { return n.queued.Load() == 0 })
	p.enqueue(&nornv1.TaskSpec{Queue: "later"})
	soon(t, "the connection is cut", func() bool { return n.server.Conns() == 1 })
	if g := p.claim(&nornv1.ClaimRequest{Queues: []string{"later"}, WaitSeconds: 30}); len(g) != 1 {
		t.Error("the task that was claimed for the lost connection is not free")
	}
	stopWork()
	t.Logf("%d grants were given back", n.metrics.Core.Load().Undelivered)
}

// TestVanishedPeer: a peer that reset its connection in the middle of things.
func TestVanishedPeer(t *testing.T) {
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	p := connect(t, n)
	stopWork := diligent(t, p)
	for range 20 {
		nc := greet(t, socket(t, n)).(*net.TCPConn)
		_, _ = nc.Write(frameOf(t, 2, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"nothing"}, WaitSeconds: 60}))
		_, _ = nc.Write(frameOf(t, 3, nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{})[:7])
		if err := nc.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		_ = nc.Close()
	}
	soon(t, "nothing of them is left", func() bool { return n.server.Conns() == 1 && n.metrics.Core.Load().Waiting == 0 })
	stopWork()
}

// connectTLS is connect over TLS, or plain with nil.
func connectTLS(t *testing.T, n *Node, secure *tls.Config) *caller {
	t.Helper()
	ready(t, n)
	c, err := transport.Dial(t.Context(), n.Addr().String(), transport.ClientConfig{TLS: secure})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	p := &caller{t, c}
	if err := p.call(nornv1.Method_METHOD_HELLO, &nornv1.Hello{MinVersion: 1, MaxVersion: 1}, &nornv1.HelloReply{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// certificates makes a server's certificate and a client that trusts it.
func certificates(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, &tls.Config{RootCAs: trusted}
}
