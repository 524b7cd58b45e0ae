package command

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestOrphansAreReaped: what a command leaves behind is taken note of once it has ended, also
// where commands of our own end all the time; and of those none loses its status.
func TestOrphansAreReaped(t *testing.T) {
	const setChildSubreaper = 36 // prctl(2)
	if _, _, err := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); err != 0 {
		t.Fatal(err)
	}
	defer syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 0, 0)
	r := &Reaper{}
	ctx, cancel := context.WithCancel(t.Context())
	var running, commands sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	defer running.Wait()
	defer cancel()
	var mu sync.Mutex // guards orphans
	var orphans []int
	for i := range 4 {
		commands.Go(func() {
			for n := range 15 {
				want := (10*i + n) % 100
				cmd := exec.Command("sh", "-c", "sh -c 'exit 3' > /dev/null & echo $!; exit "+strconv.Itoa(want))
				var out strings.Builder
				cmd.Stdout = &out
				if err := r.start(cmd); err != nil {
					t.Error(err)
					return
				}
				err := cmd.Wait()
				r.waited(cmd)
				if got := cmd.ProcessState.ExitCode(); got != want {
					t.Errorf("a command ended with %d, want %d: %v", got, want, err)
				}
				pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				orphans = append(orphans, pid)
				mu.Unlock()
			}
		})
	}
	commands.Wait()
	for end := time.Now().Add(20 * time.Second); ; {
		left := 0
		for _, pid := range orphans {
			if syscall.Kill(pid, 0) == nil {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d orphans are still in the table of processes", left, len(orphans))
		}
		<-time.After(5 * time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.own) != 0 {
		t.Errorf("%d commands are remembered", len(r.own))
	}
}

// TestAReaperLeavesAStatusWhereItIs: that of a command which nobody waits for yet.
func TestAReaperLeavesAStatusWhereItIs(t *testing.T) {
	r := &Reaper{}
	cmd := exec.Command("sh", "-c", "exit 7")
	if err := r.start(cmd); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); endedChild() != cmd.Process.Pid && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	if r.reap() {
		t.Error("a command of our own was not seen")
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Error(cmd.ProcessState)
	}
	if r.waited(cmd); !r.reap() {
		t.Error("it is still there")
	}
}
