package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/term"

	"github.com/norn-dev/norn/cmd/norn/cli"
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
	ctx, stop := signal.NotifyContext(context.Background(), cli.StopSignals()...)
	context.AfterFunc(ctx, stop)
	a := &app{&cli.App{
		Version: version,
		In:      os.Stdin, Out: os.Stdout, ErrOut: os.Stderr, Environ: os.Environ(),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())), ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}}
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
