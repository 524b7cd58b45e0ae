package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// StopSignals are those that ask for an end in order. A terminal that is closed does so
// with a hang-up, unless nohup is to keep that away.
func StopSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// TwoSignals gives a context that ends with the first of [stopSignals], and a
// channel that is closed with the second.
func TwoSignals(parent context.Context) (ctx context.Context, now <-chan struct{}, done func()) {
	ctx, first := context.WithCancelCause(context.WithoutCancel(parent))
	second := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, StopSignals()...)
	if parent.Err() != nil { // the signal came before this listened
		first(context.Cause(parent))
	}
	ended := make(chan struct{})
	go func() {
		for n := 0; n < 2; n++ {
			select {
			case <-signals:
			case <-ended:
				return
			}
			if n == 0 {
				first(errors.New("told to stop"))
			} else {
				close(second)
			}
		}
	}()
	return ctx, second, func() {
		signal.Stop(signals)
		close(ended)
		first(nil)
	}
}
