package node

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// fewConnections is how many connections TestManyIdleConnections holds;
// NORN_TEST_CONNECTIONS asks for more (`make connections`: 10,000).
const fewConnections = 2000

// TestManyIdleConnections holds connections that have said hello and do
// nothing, while a client works. The other ends are in a process of their own:
// their memory does not count, nor do their descriptors.
func TestManyIdleConnections(t *testing.T) {
	if addr := os.Getenv("NORN_TEST_HOLD"); addr != "" {
		hold(t, addr, connections(t))
		return
	}
	const beside = 200 // descriptors of all else
	want := connections(t)
	if have := descriptors(t); have < want+beside {
		t.Skipf("%d connections need %d file descriptors, the hard limit is %d (ulimit -Hn)", want, want+beside, have)
	}
	c := testConfig(t)
	c.MaxConnections = want + 1
	n := start(t, c, Options{})
	defer stop(t, n)
	p := connect(t, n)
	alone := pace(t, p)
	before := memory()

	began := time.Now()
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestManyIdleConnections$")
	holder.Env = append(os.Environ(), "NORN_TEST_HOLD="+n.Addr().String())
	holder.Stderr = os.Stderr
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "held" {
		t.Fatalf("the other process says %q", lines.Text())
	}
	if got := n.server.Conns(); got != want+1 {
		t.Fatalf("%d connections are open, want %d", got, want+1)
	}
	after := memory()
	t.Logf("%d connections in %v: %d bytes of memory (%d of them stacks) and %.2f goroutines each", want, time.Since(began).Round(time.Millisecond),
		(after.bytes-before.bytes)/want, (after.stacks-before.stacks)/want, float64(after.goroutines-before.goroutines)/float64(want))
	if g := after.goroutines - before.goroutines; g > want+want/10+50 {
		t.Errorf("%d goroutines for %d connections", g, want)
	}
	if per := (after.bytes - before.bytes) / want; per > 24<<10 {
		t.Errorf("%d bytes for an idle connection", per)
	}
	crowded := pace(t, p)
	t.Logf("100 tasks passed through in %v alone, in %v among them", alone, crowded)
	if crowded > 10*alone+2*time.Second {
		t.Errorf("among idle connections 100 tasks take %v, alone %v", crowded, alone)
	}

	_ = in.Close() // they all close
	if lines.Scan() {
		t.Errorf("the other process says %q", lines.Text())
	}
	if err := holder.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	soon(t, "only the working connection is left", func() bool { return n.server.Conns() == 1 })
	soon(t, "its goroutines are gone", func() bool { return runtime.NumGoroutine() < before.goroutines+50 })
	pace(t, p)
}

func connections(t *testing.T) int {
	text := os.Getenv("NORN_TEST_CONNECTIONS")
	if text == "" {
		return fewConnections
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("NORN_TEST_CONNECTIONS: %v", err)
	}
	return n
}

// descriptors raises the limit of this process as far as it goes.
func descriptors(t *testing.T) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(limit.Cur)
}

type usage struct{ bytes, stacks, goroutines int }

func memory() usage {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{int(m.HeapAlloc + m.StackInuse), int(m.StackInuse), runtime.NumGoroutine()}
}

// pace passes tasks through and gives the time for all.
func pace(t *testing.T, p *caller) time.Duration {
	t.Helper()
	began := time.Now()
	for range 100 {
		want := p.enqueue(&nornv1.TaskSpec{Queue: "pace"})[0]
		g := p.claim(&nornv1.ClaimRequest{Queues: []string{"pace"}})
		if len(g) != 1 || g[0].Task.Id != want {
			t.Fatalf("claimed %v", g)
		}
		p.retry(nornv1.Method_METHOD_COMPLETE, completion(t, g[0]), &nornv1.WriteReply{})
	}
	return time.Since(began)
}

// hold is the other process: it opens connections, says so, and keeps them
// until its standard input ends.
func hold(t *testing.T, addr string, want int) {
	descriptors(t)
	const dialers = 64
	hello := helloFrame(t)
	var mu sync.Mutex // guards all
	var all []net.Conn
	var left sync.WaitGroup
	for d := range dialers {
		left.Go(func() {
			for i := d; i < want; i += dialers {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				if _, err := nc.Write(hello); err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				readFrame(t, nc)
				mu.Lock()
				all = append(all, nc)
				mu.Unlock()
			}
		})
	}
	left.Wait()
	if len(all) == want {
		fmt.Println("held")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, nc := range all {
		_ = nc.Close()
	}
	os.Exit(0) // not a word more than "held"
}
