package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/client/worker"
)

// TestACommandThatCannotStartCostsNoAttempt: whatever fails between the claim and the
// command is the worker's fault, not the task's.
func TestACommandThatCannotStartCostsNoAttempt(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, cfg := range map[string]Config{
		"no temporary files":  {Args: []string{"true"}, TempDir: filepath.Join(dir, "gone")},
		"no command":          {Args: []string{filepath.Join(dir, "gone")}},
		"not executable":      {Args: []string{script("plain", "#!/bin/sh\n", 0o600)}},
		"a bad interpreter":   {Args: []string{script("bad", "#!/no/such/interpreter\n", 0o700)}},
		"no program at all":   {Args: []string{script("junk", "\x00\x01\x02", 0o700)}},
		"no directory":        {Args: []string{"true"}, Dir: filepath.Join(dir, "gone")},
		"too many words":      {Args: []string{"true", strings.Repeat("x", 3<<20)}},
		"a directory instead": {Args: []string{dir}},
	} {
		t.Run(name, func(t *testing.T) {
			o, e := runGivenBack(t, cfg)
			if e.Kind != worker.Released || o.failure != nil || o.done != nil {
				t.Errorf("the task: %+v, failed with %v", e, o.failure)
			}
		})
	}
}

// TestCheckHost finds at the start what would give every task back.
func TestCheckHost(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) Config {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return Config{Args: []string{path}, TempDir: dir}
	}
	good := Config{Args: []string{"sh"}, TempDir: dir}
	for name, c := range map[string]struct {
		cfg   Config
		slots int
		says  string // "": it passes
	}{
		"good":                 {good, 1, ""},
		"too many slots":       {good, 1 << 40, "ulimit -n"},
		"no temporary files":   {Config{Args: good.Args, TempDir: filepath.Join(dir, "gone")}, 1, "TMPDIR"},
		"a script":             {script("good", "#!/bin/sh -e\nexit 0\n"), 1, ""},
		"a bad interpreter":    {script("bad", "#! /no/such/interpreter\n"), 1, "/no/such/interpreter"},
		"written with Windows": {script("cr", "#!/bin/sh\r\nexit 0\r\n"), 1, "carriage return"},
		"a program":            {script("elf", "\x7fELF"), 1, ""},
		"an empty one":         {script("empty", ""), 1, ""},
	} {
		err := c.cfg.CheckHost(c.slots)
		if got := err == nil; got != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// runGivenBack runs one task, and stops once something has become of it.
func runGivenBack(t *testing.T, cfg Config) (*outcomeOf, worker.Event) {
	t.Helper()
	o := &outcomeOf{}
	n := fakenode.New(t, o.answer)
	c, err := client.Dial(context.Background(), []string{"x"}, client.WithDialer(n.Dial))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	events := make(chan worker.Event, 10)
	w := worker.New(c, worker.Config{Queues: []string{"q"}, Pull: true, OnEvent: func(e worker.Event) { events <- e }})
	w.Handle("*", Handler(cfg))
	ran := make(chan error, 1)
	go func() { ran <- w.Run(context.Background()) }()
	e := <-events
	for e.Kind == worker.Started {
		e = <-events
	}
	w.StopNow()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	return o, e
}
