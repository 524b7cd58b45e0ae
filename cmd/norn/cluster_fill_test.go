package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
)

// trickle is 64 producers that enqueue one small task at a time, and how many
// were acknowledged.
type trickle struct {
	acked, failed atomic.Int64
	first         atomic.Pointer[error]
	stop          context.CancelFunc
	running       sync.WaitGroup
}

func (f *filling) trickle(queue string) *trickle {
	ctx, stop := context.WithCancel(f.t.Context())
	l := &trickle{stop: stop}
	for n := range 64 {
		l.running.Go(func() {
			for payload := make([]byte, 100); ctx.Err() == nil; {
				switch _, err := f.clients[n%len(f.clients)].Enqueue(ctx, client.Task{Queue: queue, Payload: payload}); {
				case err == nil:
					l.acked.Add(1)
				case ctx.Err() == nil:
					l.failed.Add(1)
					l.first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	return l
}

// rate is how many tasks a second are acknowledged until something holds.
func (l *trickle) rate(until func()) (rate, seconds float64) {
	n, began := l.acked.Load(), time.Now()
	until()
	seconds = time.Since(began).Seconds()
	return float64(l.acked.Load()-n) / seconds, seconds
}

// end stops the producers. No enqueue may have failed.
func (l *trickle) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.running.Wait()
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d enqueues failed, the first with: %v", n, *l.first.Load())
	}
}

// spent is the processor time of a process, in seconds.
func (p *process) spent(t *testing.T) (seconds float64) {
	t.Helper()
	resp, err := http.Get("http://" + p.s.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if n, found := strings.CutPrefix(line, "process_cpu_seconds_total "); found {
			seconds, _ = strconv.ParseFloat(strings.TrimSpace(n), 64)
		}
	}
	return seconds
}

// profile writes a processor profile of a node to a file of NORN_TEST_PROFILES,
// if that is set, while something happens.
func (p *process) profile(t *testing.T, name string, seconds int) (wait func()) {
	dir := os.Getenv("NORN_TEST_PROFILES")
	if dir == "" {
		return func() {}
	}
	var done sync.WaitGroup
	done.Go(func() {
		resp, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.s.http, seconds))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+"-"+p.name), b, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	})
	return done.Wait
}

// TestClusterFill: a wiped node of three is filled, first with nothing else to
// do, then while 64 producers go on. What it prints is in docs/archive/performance.md:
// figures of one run are to be compared with each other. NORN_TEST_FILL says how
// many MB (`make fill`: 500), NORN_TEST_PROFILES where profiles go.
func TestClusterFill(t *testing.T) {
	thorough(t)
	const size = 4096
	tasks := number("NORN_TEST_FILL", 40) * 1_000_000 / size
	c := startCompany(t, 3, "--partitions", "64", "--memtable-size", "24MiB", "--repair-interval", "10s", "--pprof")
	f := &filling{company: c, clients: make([]*client.Client, 2), megabytes: float64(tasks*size) / 1e6}
	for i := range f.clients {
		var err error
		if f.clients[i], err = client.Dial(t.Context(), []string{c.all[i].listen, c.all[1-i].listen}); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.clients[i].Close() }()
	}
	f.payloads("big", tasks, size)
	f.lose(t)
	f.fill(t, "alone")

	small := f.trickle("small")
	three, _ := small.rate(func() { <-time.After(2 * time.Second) })
	small.end(t)
	f.lose(t)
	small = f.trickle("small")
	defer small.stop()
	two, _ := small.rate(func() { <-time.After(3 * time.Second) })
	during, seconds := small.rate(func() { f.fill(t, "load") })
	small.end(t)
	t.Logf("enqueues: %.0f/s with three nodes, %.0f/s with two, %.0f/s during the %.1f s from the start of n3: %.2f and %.2f of that",
		three, two, during, seconds, during/three, during/two)
	c.settled(3)
	for _, p := range c.all {
		p.verified(t)
		p.counted(t, "big", uint64(tasks))
	}
}

// filling fills the third node of a cluster again and again.
type filling struct {
	*company
	clients   []*client.Client // of the first two
	megabytes float64          // of payload that is there
}

// lose kills and wipes the third node, and waits until it counts as dead.
func (f *filling) lose(t *testing.T) {
	t.Helper()
	f.all[2].kill(t)
	f.all[2].wipe(t)
	<-time.After(12 * time.Second)
}

// fill starts the third node and waits until it has everything. What it takes to
// become a member, before anything is copied, does not count.
func (f *filling) fill(t *testing.T, name string) {
	t.Helper()
	n1, n2, n3 := f.all[0], f.all[1], f.all[2]
	n3.args = append(n3.args, "--join", n1.peer)
	n3.launch(t)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	left := func() (copies uint32) {
		<-tick.C
		s, err := f.clients[0].Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.GetMovement().GetCopiesLeft()
	}
	eventually(t, "n3 is to copy", func() bool { return left() > 0 })
	began, spent := time.Now(), []float64{n1.spent(t), n2.spent(t), n3.spent(t)}
	profiles := []func(){n1.profile(t, name, 3), n3.profile(t, name, 3)}
	eventually(t, "n3 has everything", func() bool { return left() == 0 })
	seconds := time.Since(began).Seconds()
	for i, p := range f.all {
		spent[i] = p.spent(t) - spent[i]
	}
	t.Logf("%s: filled with %.0f MB of payload in %.1f s, %.0f MB/s; processor time of n1, n2 and n3 %.1f, %.1f and %.1f s, together %.1f ms per MB",
		name, f.megabytes, seconds, f.megabytes/seconds, spent[0], spent[1], spent[2], 1000*(spent[0]+spent[1]+spent[2])/f.megabytes)
	for _, wait := range profiles {
		wait()
	}
}

// payloads enqueues so many tasks of a size from 16 producers.
func (f *filling) payloads(queue string, tasks, size int) {
	f.t.Helper()
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(tasks))
	for n := range 8 {
		all.Go(func() {
			for {
				n0 := left.Add(-100)
				if n0 <= -100 || f.t.Context().Err() != nil {
					return
				}
				batch := make([]client.Task, min(100, n0+100))
				for i := range batch {
					batch[i] = client.Task{Queue: queue, Payload: noise(uint64(n0)+uint64(i)<<32, size)}
				}
				results, err := f.clients[n%len(f.clients)].EnqueueMany(f.t.Context(), batch)
				for _, r := range results {
					if r.Err != nil {
						err = r.Err
					}
				}
				if err != nil {
					f.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// noise is bytes that no compression makes smaller.
func noise(seed uint64, size int) []byte {
	b := make([]byte, 0, size+8)
	for x := seed*2 + 1; len(b) < size; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		for s := range 8 {
			b = append(b, byte(x>>(8*s)))
		}
	}
	return b[:size]
}
