package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
)

type greeting struct{ Name string }

func main() {
	addrs := []string{"127.0.0.1:7711"}
	if len(os.Args) > 1 {
		addrs = os.Args[1:]
	}
	c, err := client.Dial(context.Background(), addrs)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w := worker.New(c, worker.Config{Slots: 4, Prefetch: worker.Adaptive})
	worker.HandleJSON(w, "greetings", func(ctx context.Context, t *worker.Task, g greeting) error {
		t.SetResult([]byte("Hello, " + g.Name + "!"))
		return t.Update(ctx, []byte("greeted "+g.Name)) // a checkpoint
	})
	signal.Ignore(syscall.SIGPIPE) // nobody reading its log is no reason to end
	told, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(told, func() {
		stop() // a second signal ends the process
		patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = w.Stop(patience) // finish what runs; what takes longer is given back, without using an attempt
	})
	if err := w.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
