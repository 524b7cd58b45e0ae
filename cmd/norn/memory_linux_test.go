package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cgroup makes one with so many bytes of memory; skipped where that cannot be.
func cgroup(t *testing.T, limit string) (procs string) {
	t.Helper()
	dir, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, file = "/sys/fs/cgroup", "memory.max"
	}
	dir, err := os.MkdirTemp(dir, "norn-test-")
	if err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, file), []byte(limit), 0o600); err != nil {
		t.Skipf("no limit of memory can be set here: %v", err)
	}
	return filepath.Join(dir, "cgroup.procs")
}

// TestALittleMemory: 64 producers of payloads of 1 MB do not kill a node of 256 MiB: those for
// whom there is no room are refused, and come again.
func TestALittleMemory(t *testing.T) {
	procs := cgroup(t, "268435456")
	s, err := launchAs(exec.Command("sh", "-c", `echo $$ > "$0" && exec "$@"`, procs, the.norn, "server", "--http-listen", "127.0.0.1:0", "--eta", "100ms", "--log-format", "json",
		"--data", filepath.Join(t.TempDir(), "data"), "--name", "n1", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.cmd.Process.Kill() }()
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	payload := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(payload, bytes.Repeat([]byte("x"), 1_000_000), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(the.norn, "bench", "--addr", s.addr, "--scenario", "enqueue", "--payload", "1000000", "--producers", "64", "--tasks", "200", "-o", "json").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%.2000s", err, out)
	}
	if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit %d, %v: %s", code, err, s.log.String())
	}
	if !strings.Contains(s.log.String(), `"msg":"server.memory"`) {
		t.Error(s.log.String())
	}
}

// TestTheNodesOfDevShareTheMemory of their container, unless they are told what each may have.
func TestTheNodesOfDevShareTheMemory(t *testing.T) {
	if got := memoryShare([]string{"PATH=x"}, 300, 3); !slices.Equal(got, []string{"GOMEMLIMIT=90"}) {
		t.Error(got)
	}
	if got := append(memoryShare(nil, 0, 3), memoryShare([]string{"GOMEMLIMIT=1GiB"}, 300, 3)...); len(got) != 0 {
		t.Error(got)
	}
}

// TestOrphansOfTheFirstProcess: norn work as the first process of a container takes note of
// the end of what its commands leave behind, and of each command's own status.
func TestOrphansOfTheFirstProcess(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes a namespace of processes")
	}
	for _, status := range []string{"0", "3", "0"} {
		enqueue(t, "-q", "first", status)
	}
	var out, errOut bytes.Buffer
	cmd := exec.Command(the.norn, "work", "--addr", the.server.addr, "-q", "first", "--pull", "--exit-when-empty", "-o", "json", "--",
		"sh", "-c", `n=$(cat); (sh -c 'sleep 0.1; exit 9' > /dev/null 2>&1 &); sleep 1; [ "$n" = 3 ] && exit 75; exit "$n"`)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Skipf("no namespace of processes can be made here: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	seen := make(map[string]time.Time)
	parent := "PPid:\t" + strconv.Itoa(cmd.Process.Pid) + "\n"
	limit, tick := time.After(4*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-limit: // the task that is put off keeps it
			_ = cmd.Process.Signal(syscall.SIGTERM)
			limit = nil
		case <-ended:
			if said := strings.ReplaceAll(out.String(), " ", ""); !strings.Contains(said, `"completed":"2"`) {
				t.Errorf("%s\n%s", said, errOut.String())
			}
			return
		case <-tick.C:
		}
		all, _ := filepath.Glob("/proc/[0-9]*/status")
		for _, file := range all {
			b, _ := os.ReadFile(file)
			if !bytes.Contains(b, []byte(parent)) || !bytes.Contains(b, []byte("State:\tZ")) {
				continue
			}
			if first, known := seen[file]; !known {
				seen[file] = time.Now()
			} else if time.Since(first) > 500*time.Millisecond {
				t.Errorf("%s is a zombie:\n%s", file, b)
				_ = cmd.Process.Kill()
				<-ended
				return
			}
		}
	}
}
