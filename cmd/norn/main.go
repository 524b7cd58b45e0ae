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

func main() {
	// The first signal ends ctx, and the second one the process, should a command not
	// heed that, in a read of a slow disk for example. server and work, which end in
	// two steps, listen for themselves.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	a := &app{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr, environ: os.Environ(),
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())), errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
