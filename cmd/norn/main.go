package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// Set by the linker: see the Makefile.
var (
	version = "0.0.0-dev"
	commit  = "unknown"
)

// stopSignals are those that ask for an end in order. A terminal that is closed does so
// with a hang-up, unless nohup is to keep that away.
func stopSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

func main() {
	// The first signal ends ctx, and the second one the process, should a command not
	// heed that, in a read of a slow disk for example. server and work, which end in
	// two steps, listen for themselves.
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	context.AfterFunc(ctx, stop)
	a := &app{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr, environ: os.Environ(),
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
