package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/cmd/norn/cli"
)

// What somebody who tries norn for the first time runs into.

// runFrom runs a command whose standard input is a file.
func runFrom(t *testing.T, in *os.File, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patientCommand)
	defer cancel()
	cmd := exec.CommandContext(ctx, the.norn, args...)
	cmd.Env = environment("NORN_ADDR=" + the.server.addr)
	cmd.Stdin = in
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run() // the code says it
	return result{out.String(), errOut.String(), cmd.ProcessState.ExitCode()}
}

// TestInputThatWaitsIsNotLeftOut: without PAYLOAD, bytes on standard input are neither left
// out nor read: they may be those of a loop around it.
func TestInputThatWaitsIsNotLeftOut(t *testing.T) {
	const q = "first-stdin"
	if r := nornWith(t, "x\n", nil, "task", "enqueue", "-q", q); r.code != 2 || !strings.Contains(r.err, "give - to read them, or '' for an empty payload") {
		t.Errorf("a pipe with bytes: %+v", r)
	}
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if r := runFrom(t, in, "task", "enqueue", "-q", q); r.code != 2 {
		t.Errorf("a file with bytes: %+v", r)
	}
	if at, err := in.Seek(0, 1); err != nil || at != 0 {
		t.Errorf("the file was read up to %d, %v", at, err)
	}
	if n := decode[map[string]any](t, "task", "count", "-q", q)["total"]; n != "0" {
		t.Errorf("%v tasks after refusals", n)
	}
	if _, err := in.Seek(0, 2); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]result{
		"nothing waits":        runFrom(t, nil, "task", "enqueue", "-q", q),
		"a file at its end":    runFrom(t, in, "task", "enqueue", "-q", q),
		"a pipe that is empty": nornWith(t, "", nil, "task", "enqueue", "-q", q),
		"an empty payload":     nornWith(t, "x", nil, "task", "enqueue", "-q", q, ""),
		"a payload":            nornWith(t, "x", nil, "task", "enqueue", "-q", q, "p"),
		"-":                    nornWith(t, "x", nil, "task", "enqueue", "-q", q, "-"),
	} {
		if r.code != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestPauseOfANewQueue: the name may be a slip, and the queue is paused all the same.
func TestPauseOfANewQueue(t *testing.T) {
	ok(t, "task", "enqueue", "-q", "first-invoices", "x")
	r := norn(t, "queue", "pause", "first-invoises")
	if r.code != 0 || !strings.Contains(r.err, "new queue") || !strings.Contains(r.err, "did you mean first-invoices?") {
		t.Errorf("a slip: %+v", r)
	}
	if r := norn(t, "queue", "pause", "first-invoices"); r.code != 0 || r.err != "" {
		t.Errorf("the queue that was meant: %+v", r)
	}
}

// TestNearestFlag: a flag with a slip in it gets the one that was meant.
func TestNearestFlag(t *testing.T) {
	refused(t, 2, "did you mean --priority?", "task", "enqueue", "-q", "q", "--prioriti", "3", "x")
	refused(t, 2, "did you mean --queue?", "task", "list", "--queu", "x")
	refused(t, 2, "did you mean --max-attempts?", "task", "enqueue", "-q", "q", "--max_attempt", "3", "x")
	if r := refused(t, 2, "unknown flag", "task", "list", "--zebra"); strings.Contains(r.err, "did you mean") {
		t.Errorf("no flag is like it: %s", r.err)
	}
}

// TestAddresses: what is meant is clear, or the error says how to write it.
func TestAddresses(t *testing.T) {
	_, port, _ := net.SplitHostPort(the.server.addr)
	ok(t, "--addr", port, "task", "count")
	refused(t, 2, "write [fd77:1::2] or [fd77:1::2]:7711", "--addr", "fd77:1::2", "task", "count")
	refused(t, 2, "write host:7711", "--addr", "norn://host:7711/", "task", "count")
}

// person runs a command of this process as if somebody sat at a terminal.
func person(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	a := &app{&cli.App{
		In: strings.NewReader(""), Out: &out, ErrOut: &errOut, OutTerminal: true, ErrTerminal: true,
		Environ: environment(append([]string{"NORN_ADDR=" + the.server.addr}, env...)...),
	}}
	code := a.run(t.Context(), args)
	return result{out.String(), errOut.String(), code}
}

// TestEmptyListsSaySo: a person sees that there is nothing, a program gets nothing.
func TestEmptyListsSaySo(t *testing.T) {
	for want, args := range map[string][]string{
		"no tasks that are unfinished or dead": {"task", "list", "-q", "first-none"},
		"no tasks\n":                           {"task", "list", "-q", "first-none", "--all"},
		"no task is ready there":               {"task", "claim", "-q", "first-none"},
	} {
		if r := person(t, nil, args...); r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%q: %+v", args, r)
		}
		if r := norn(t, args...); r.code != 0 || r.out != "" {
			t.Errorf("%q, to a program: %+v", args, r)
		}
		if r := person(t, nil, append(args, "-o", "json")...); r.out != "[]\n" {
			t.Errorf("%q -o json: %+v", args, r)
		}
	}
}

// TestNobodyThere: at a terminal the error comes after 2 s where all addresses refuse the
// connection, unless a time-out is given; what is silent is waited for.
func TestNobodyThere(t *testing.T) {
	beside(t)
	refusing := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	two := refusing() + "," + refusing()
	for _, c := range []struct {
		name     string
		env      []string
		args     []string
		at, over time.Duration
	}{
		{"two that refuse", []string{"NORN_ADDR=" + two}, nil, 2 * time.Second, 12 * time.Second},
		{"a time-out by flag", []string{"NORN_ADDR=" + two}, []string{"--timeout", "4s"}, 4 * time.Second, 14 * time.Second},
		{"a time-out by environment", []string{"NORN_ADDR=" + two, "NORN_TIMEOUT=4s"}, nil, 4 * time.Second, 14 * time.Second},
	} {
		began := time.Now()
		r := person(t, c.env, append(c.args, "task", "count")...)
		if took := time.Since(began); r.code != 4 || took < c.at || took > c.over {
			t.Errorf("%s: after %v: %+v", c.name, took, r)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var out, errOut bytes.Buffer
	a := &app{&cli.App{In: strings.NewReader(""), Out: &out, ErrOut: &errOut, ErrTerminal: true, Environ: environment("NORN_ADDR=" + refusing() + "," + silent.Addr().String())}}
	if code := a.run(ctx, []string{"task", "count"}); ctx.Err() == nil {
		t.Errorf("one that refuses and one that is silent: %d before the time was over: %s", code, errOut.String())
	}
}

// TestDevHelpIsShort: the flags of `norn dev` are not drowned in those of the servers, all of
// which it takes.
func TestDevHelpIsShort(t *testing.T) {
	help := ok(t, "dev", "--help")
	_, flags, _ := strings.Cut(help, "\nFlags:\n")
	flags, _, _ = strings.Cut(flags, "\n\n")
	if n := strings.Count(flags, "\n") + 1; n > 14 {
		t.Errorf("%d lines of flags:\n%s", n, flags)
	}
	for _, flag := range []string{"--nodes", "--data", "--base-port", "--verbose", "--eta", "--partitions"} {
		if !strings.Contains(flags, flag+" ") {
			t.Errorf("%s is not listed:\n%s", flag, flags)
		}
	}
	refused(t, 2, "gc-grace: ", "dev", "--gc-grace", "-1h")
}
