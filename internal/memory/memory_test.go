package memory

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

func TestLimit(t *testing.T) {
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
	const v1 = "40 30 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 30 0:34 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	for name, c := range map[string]struct {
		group, mounts string
		files         map[string]string
		want          uint64
	}{
		"nothing is known":         {"", "", nil, 0},
		"no limit":                 {"0::/a\n", v2, map[string]string{"sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"version 2":                {"0::/a\n", v2, map[string]string{"sys/fs/cgroup/a/memory.max": "268435456\n"}, 256 << 20},
		"one above":                {"0::/pod/c\n", v2, map[string]string{"sys/fs/cgroup/pod/memory.max": "100\n", "sys/fs/cgroup/pod/c/memory.max": "max\n"}, 100},
		"a namespace of cgroups":   {"0::/\n", v2, map[string]string{"sys/fs/cgroup/memory.max": "7\n"}, 7},
		"mounted from a container": {"0::/docker/x/y\n", "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n", map[string]string{"sys/fs/cgroup/memory.max": "9\n", "sys/fs/cgroup/y/memory.max": "8\n"}, 8},
		"another one is mounted":   {"0::/docker/xyz\n", "30 23 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n", map[string]string{"sys/fs/cgroup/memory.max": "9\n"}, 9},
		"version 1":                {"4:memory:/a\n1:cpu:/b\n0::/\n", v1, map[string]string{"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "134217728\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 128 << 20},
		"version 1, no limit":      {"4:memory:/a\n", v1, map[string]string{"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"controllers together":     {"4:cpu,memory:/\n", "40 30 0:33 / /cg rw - cgroup cgroup rw,cpu,memory\n", map[string]string{"cg/memory.limit_in_bytes": "5\n"}, 5},
		"a blank in the path":      {"0::/\n", "30 23 0:26 / /sys/my\\040group rw - cgroup2 cgroup2 rw\n", map[string]string{"sys/my group/memory.max": "6\n"}, 6},
		"not a number":             {"0::/\nnonsense\n", v2 + "nonsense\n", map[string]string{"sys/fs/cgroup/memory.max": "much\n"}, 0},
	} {
		root := fstest.MapFS{}
		if c.group != "" {
			root["proc/self/cgroup"], root["proc/self/mountinfo"] = &fstest.MapFile{Data: []byte(c.group)}, &fstest.MapFile{Data: []byte(c.mounts)}
		}
		for f, text := range c.files {
			root[f] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := limitIn(root); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestApply(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "90MiB")
	debug.SetMemoryLimit(90 << 20) // as the runtime has, had it been there at the start
	if n, from := Apply(); n < 99<<20 || n > 100<<20 || from != "GOMEMLIMIT" {
		t.Errorf("%d by %q", n, from)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if n, _ := Apply(); n != 0 {
		t.Errorf("%d where it is off", n)
	}
	if soft := Soft(100 << 20); soft < 89<<20 || soft > 90<<20 {
		t.Errorf("%d of 100 MiB", soft)
	}
}

// TestLimitOfThisProcess: that of a real cgroup, where one can be made.
func TestLimitOfThisProcess(t *testing.T) {
	if os.Getenv("NORN_TEST_LIMIT") != "" {
		n, from := Apply()
		if n != 192<<20 || from != "cgroup" || debug.SetMemoryLimit(-1) != Soft(192<<20) {
			t.Fatalf("%d by %q, the collector heeds %d", n, from, debug.SetMemoryLimit(-1))
		}
		return
	}
	dir, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, file = "/sys/fs/cgroup", "memory.max"
	}
	dir, err := os.MkdirTemp(dir, "norn-test-")
	if err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	defer func() { _ = os.Remove(dir) }()
	if err := os.WriteFile(filepath.Join(dir, file), []byte("201326592"), 0o600); err != nil {
		t.Skipf("no limit can be set here: %v", err)
	}
	cmd := exec.Command("sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), os.Args[0], "-test.run", "TestLimitOfThisProcess")
	cmd.Env = append(os.Environ(), "NORN_TEST_LIMIT=1", "GOMEMLIMIT=")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "FAIL") {
		t.Errorf("%v: %s", err, out)
	}
}
