package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// TestKillAtRandomMoments kills the server with SIGKILL, under a load of
// everything that clients can do: nothing acknowledged is lost, nothing
// completed comes back, no dependency is jumped, and in the end everything is
// finished that can be. See judge for what is checked. NORN_TEST_KILLS sets how
// often (`make kills` asks for 100, and other choices each time), NORN_TEST_SEED
// repeats the choices of a run, if not its timing.
func TestKillAtRandomMoments(t *testing.T) {
	kills, usual := number("NORN_TEST_KILLS", 0), 1
	if kills == 0 {
		kills = 3
	} else {
		usual = int(time.Now().UnixNano() & 0xffffff)
	}
	seed := uint64(number("NORN_TEST_SEED", usual))
	began := time.Now()
	v := newVictim(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(kills)*20*time.Second+5*time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, []string{v.addr}, client.WithConnections(2))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	k := &killCheck{
		killLoad: &killLoad{j: newJudge(), c: c, seed: seed, stop: make(chan struct{}), dying: make(chan [2]id.ID, 1000)},
		archives: v.archives, read: map[string]bool{},
	}
	t.Logf("seed %d", seed)
	if err := k.prepare(ctx); err != nil {
		t.Fatal(err)
	}
	halt := sync.OnceFunc(func() { close(k.stop); k.running.Wait() })
	defer halt()
	k.start(ctx)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := range kills {
		<-time.After(time.Duration(100+r.IntN(900)) * time.Millisecond)
		if n%8 == 2 {
			k.avalanche(ctx, r)
			k.j.note("kill while dependents are told", 1)
		}
		v.kill(t)
		k.j.note("kill under load", 1)
		if n%4 == 1 {
			v.stumble(t, time.Duration(r.IntN(120))*time.Millisecond)
			k.j.note("kill while starting", 1)
		}
		v.open(t)
		if err := k.everything(ctx); err != nil {
			t.Fatalf("after kill %d: %v", n+1, err)
		}
	}
	k.exercised(ctx, "update read back", "waits for ever for a dependency that failed")
	halt()
	k.end(t, ctx)
	if code, err := v.s.end(syscall.SIGTERM); err != nil || code != 0 {
		t.Errorf("the server ended with %d, %v", code, err)
	}
	if missed := k.j.missed(); len(missed) > 0 {
		t.Errorf("never exercised: %s", strings.Join(missed, ", "))
	}
	t.Logf("%d kills in %v, seed %d\n%s", kills, time.Since(began).Round(time.Second), seed, k.j.summary())
}

// start begins the load.
func (k *killCheck) start(ctx context.Context) {
	const ms = time.Millisecond
	n := uint64(0)
	for _, part := range []struct {
		every time.Duration
		step  func(context.Context, *rand.Rand)
	}{
		{6 * ms, k.produce}, {12 * ms, k.produce}, {40 * ms, k.depend}, {15 * ms, k.key}, {60 * ms, k.cancelSome}, {100 * ms, k.purge},
		{40 * ms, k.retryDead}, {60 * ms, k.admin}, {30 * ms, k.killLoad.read},
		{5 * ms, (&killWorker{killLoad: k.killLoad, name: "w1"}).work}, {10 * ms, (&killWorker{killLoad: k.killLoad, name: "w2"}).work},
		{20 * ms, (&killWorker{killLoad: k.killLoad, name: "w3"}).work}, {5 * ms, (&killWorker{killLoad: k.killLoad, name: "w4"}).work},
	} {
		n++
		k.run(ctx, n, part.every, part.step)
	}
}

// exercised goes on for a while until every feature was exercised that can be
// by now.
func (k *killCheck) exercised(ctx context.Context, later ...string) {
	tick, limit := time.NewTicker(50*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for {
		missed := slices.DeleteFunc(k.j.missed(), func(f string) bool { return slices.Contains(later, f) })
		if len(missed) == 0 {
			return
		}
		if err := k.everything(ctx); err != nil {
			return // it is said in the end
		}
		select {
		case <-tick.C:
		case <-limit:
			return
		}
	}
}

// end has everything finished, and checks it all once more.
func (k *killCheck) end(t *testing.T, ctx context.Context) {
	k.j.pauses(qGate, false)
	if _, err := k.c.Queues().Resume(ctx, qGate); err != nil && !errors.Is(err, client.ErrNotFound) { // it may never have been paused
		t.Fatal(err)
	}
	begun := k.j.cancelsWhere(qPurge, "") // some are to start in an hour
	b, err := k.c.Queues().Purge(ctx, qPurge, client.BulkOptions{})
	k.j.cancelledWhere(begun, qPurge, "", false, b, err)
	k.stop = make(chan struct{})
	for n := range uint64(3) {
		k.run(ctx, 100+n, 5*time.Millisecond, (&killWorker{killLoad: k.killLoad, name: "finisher"}).finish)
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = k.idle(bounded)
	close(k.stop)
	k.running.Wait()
	if err == nil {
		err = k.finally(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// victim is the server that is killed.
type victim struct {
	addr, data, archives string
	s                    *server
}

func newVictim(t *testing.T) *victim {
	dir := t.TempDir()
	v := &victim{addr: freeAddress(t), data: filepath.Join(dir, "data"), archives: filepath.Join(dir, "archives")}
	if err := os.Mkdir(v.archives, 0o755); err != nil {
		t.Fatal(err)
	}
	v.open(t)
	return v
}

func (v *victim) options() []string {
	return []string{"--listen", v.addr, "--collect-interval", "1s", "--archive-dir", v.archives}
}

// open starts it and waits until it is ready.
func (v *victim) open(t *testing.T) {
	t.Helper()
	v.s = ownServer(t, v.data, v.options()...)
}

func (v *victim) kill(t *testing.T) {
	t.Helper()
	if _, err := v.s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// stumble starts it and kills it before it need be ready.
func (v *victim) stumble(t *testing.T, after time.Duration) {
	t.Helper()
	cmd := exec.Command(the.norn, append([]string{"server", "--data", v.data, "--name", "n1", "--http-listen", "127.0.0.1:0", "--eta", "100ms"}, v.options()...)...)
	cmd.Env = environment()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(after)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

// freeAddress is one that nobody else takes while the server is down: where
// all of 127.0.0.0/8 is this machine, not on the address that every other test
// uses.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// number reads an environment variable.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
