package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestComingFromCommands runs the commands of norn in docs/how-to/coming-from as they stand,
// with what a reader has at hand: a crontab, a program, the task that was claimed last.
func TestComingFromCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/how-to/coming-from/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatal(pages, err)
	}
	ran := 0
	for _, page := range pages {
		s, err := startServer(filepath.Join(t.TempDir(), "data"))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for name, text := range map[string]string{
			"crontab":   "#!/bin/sh\necho '15 3 * * * /opt/backup'\n",
			"send-mail": "#!/bin/sh\ngrep -q ada@example.org\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		env := append(environment(), "NORN_ADDR="+s.addr, "PATH="+dir+":"+filepath.Dir(the.norn)+":"+os.Getenv("PATH"))
		claimed := ""
		for _, line := range strings.Split(read(t, page), "\n") {
			line, code := strings.CutPrefix(line, "    ")
			if !code || !strings.HasPrefix(line, "norn ") && !strings.HasPrefix(line, "crontab ") {
				continue
			}
			if strings.HasPrefix(line, "norn work") { // a worker goes on until it is told to end
				line = strings.Replace(line, "norn work", "norn work --exit-when-empty", 1)
			}
			script := `ID=$(printf %s "$CLAIMED" | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -n 1); TOKEN=$(printf %s "$CLAIMED" | sed -n 's/.*"token": *"\([^"]*\)".*/\1/p' | tail -n 1); ` + line
			if strings.Contains(line, "task enqueue") { // its delay would have the test wait
				script = strings.NewReplacer("--delay 60s", "", "--delay 1m", "").Replace(script)
			}
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir, cmd.Env = dir, append(env, "CLAIMED="+claimed)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", filepath.Base(page), line, err, out)
			}
			if strings.Contains(line, "task claim") {
				claimed = strings.ReplaceAll(string(out), ",", ",\n")
			}
			ran++
		}
		_, _ = s.end(os.Interrupt)
	}
	if ran < 10 {
		t.Errorf("%d commands were run", ran)
	}
}
