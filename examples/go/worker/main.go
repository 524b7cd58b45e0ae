package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
)

type greeting struct{ Name string }

func main() {
	c, err := client.Dial(context.Background(), []string{"127.0.0.1:7711"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w := worker.New(c, worker.Config{Slots: 4})
	worker.HandleJSON(w, "greetings", func(ctx context.Context, t *worker.Task, g greeting) error {
		t.SetResult([]byte("Hello, " + g.Name + "!"))
		return t.Update(ctx, []byte("greeted "+g.Name)) // a checkpoint
	})
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(interrupted, func() { _ = w.Stop(context.Background()) }) // finish what runs
	if err := w.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
