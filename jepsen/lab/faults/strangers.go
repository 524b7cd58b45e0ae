package faults

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// strangers are the faults of clients (F18, F20).
func strangers() []Fault {
	return []Fault{
		{Name: "hostile", About: "garbage, half frames, floods and silence on every port (F18)", run: (*nemesis).besieged},
		{Name: "overload", About: "64 clients enqueue batches as fast as they can (F20)", run: (*nemesis).overloaded},
	}
}

// besiegers are how many hostile connections are open to each port at a time.
const besiegers = 8

// besieged: strangers talk to every port of every node.
func (n *nemesis) besieged() error {
	n.does("hostile clients on all ports")
	over := make(chan struct{})
	var work sync.WaitGroup
	tried := 0
	for _, p := range n.Members() {
		for _, port := range []string{p.Listen, p.Peer, p.Http} {
			for i := range besiegers {
				tried++
				rnd := rand.New(rand.NewPCG(n.Cfg.Seed, uint64(tried)))
				work.Go(func() {
					for ; ; i++ {
						select {
						case <-over:
							return
						default:
							annoy(port, i, rnd)
						}
					}
				})
			}
		}
	}
	n.wait(3*time.Second, 8*time.Second)
	close(over)
	work.Wait()
	return nil
}

// annoy opens one connection and misuses it, for a second at most.
func annoy(port string, how int, rnd *rand.Rand) {
	if how%8 == 5 {
		packet(port, rnd)
		return
	}
	c, err := net.DialTimeout("tcp", port, time.Second)
	if err != nil {
		<-time.After(50 * time.Millisecond)
		return
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	noise := make([]byte, 1+rnd.IntN(4096))
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	switch how % 8 {
	case 6: // many requests, and nobody who reads the answers
		for range 64 {
			if _, err := c.Write(noise); err != nil {
				return
			}
		}
		return
	case 7: // a storm of connections that are gone at once
		for range 50 {
			if d, err := net.DialTimeout("tcp", port, time.Second); err == nil {
				if tcp, ok := d.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // the system keeps nothing of it: it has to look through all that it keeps to find whose a connection is
				}
				_ = d.Close()
			}
		}
		return
	case 0: // garbage
		_, _ = c.Write(noise)
	case 1: // a frame that says it is long, and is not
		_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(16<<20)), noise...))
	case 2: // a frame over every limit
		_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, 1<<32-1), noise...))
	case 3: // byte by byte
		for _, b := range noise[:min(len(noise), 20)] {
			_, _ = c.Write([]byte{b})
			<-time.After(20 * time.Millisecond)
		}
	case 4: // silence
		<-time.After(500 * time.Millisecond)
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20)) // whatever it says
}

// packet sends garbage by UDP.
func packet(port string, rnd *rand.Rand) {
	c, err := net.Dial("udp", port)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for range 20 {
		noise := make([]byte, rnd.IntN(1400))
		for i := range noise {
			noise[i] = byte(rnd.Uint32())
		}
		_, _ = c.Write(noise)
	}
	<-time.After(10 * time.Millisecond)
}

// Of an overload: how many clients, and how many tasks at most, so that all can
// be read back.
const (
	crowd      = 64
	crowdTasks = 5000
)

// overloaded: a crowd of clients does not wait between calls.
func (n *nemesis) overloaded() error {
	n.does("%d clients without a pause", crowd)
	c := &workloads.Crew{Lab: n.Lab}
	var work sync.WaitGroup
	end := time.Now().Add(time.Duration(2+n.Rnd.IntN(6)) * time.Second)
	for i := range crowd {
		p := n.Members()[i%len(n.Members())]
		dialled, err := n.Dial(10*time.Second, p)
		if err != nil {
			return err
		}
		h := &workloads.Hand{Crew: c, Process: n.Rec.Process(), Client: dialled, Node: p, Rnd: rand.New(rand.NewPCG(n.Cfg.Seed, uint64(i)))}
		work.Go(func() {
			for sent := 0; sent < crowdTasks/crowd && time.Now().Before(end); sent += workloads.MaxBatch / 2 {
				h.Enqueue(client.Quorum, false)
			}
		})
	}
	work.Wait()
	return nil
}
