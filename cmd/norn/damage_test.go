package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDamageAtTheStartIsSaidAsLater: whatever file is damaged, the last line of the log says so
// in the log's format, with what to do, and the exit code is the one of damage.
func TestDamageAtTheStartIsSaidAsLater(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"identity":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "IDENTITY"), []byte("{"), 0o600) },
		"no identity": func(dir string) error { return os.Remove(filepath.Join(dir, "IDENTITY")) },
		"superblocks": func(dir string) error {
			_ = os.Remove(filepath.Join(dir, "SUPERBLOCK-0"))
			return os.WriteFile(filepath.Join(dir, "SUPERBLOCK-1"), []byte("x"), 0o600)
		},
		"manifest": func(dir string) error {
			all, err := filepath.Glob(filepath.Join(dir, "facts", "MANIFEST-*"))
			for _, file := range all {
				b, _ := os.ReadFile(file)
				for i := range b[:len(b)/2] {
					b[i] ^= 0x5a
				}
				err = os.WriteFile(file, b, 0o600)
			}
			return err
		},
		"empty store": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "register")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := ownServer(t, dir)
			if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
				t.Fatalf("exit %d, %v", code, err)
			}
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			r := norn(t, "server", "--data", dir, "--name", "n1", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--log-format", "json")
			lines := strings.Split(strings.TrimSpace(r.err), "\n")
			var last struct{ Msg, Error string }
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
				t.Fatalf("%v: %s", err, r.err)
			}
			if r.code != 70 || last.Msg != "node.fatal" || !strings.Contains(last.Error, "start this node empty with --join") || strings.Contains(last.Error, "restore the") {
				t.Errorf("exit %d: %+v", r.code, last)
			}
		})
	}
}

// TestTooFewFilesAreRefused: a node that could serve one client for good does not start.
func TestTooFewFilesAreRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	out, err := exec.Command("sh", "-c", `ulimit -n 64 && exec "$0" "$@"`, the.norn, "server", "--data", data, "--name", "n1",
		"--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "ulimit -n 65536") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("it has made a directory: %v", err)
	}
}
