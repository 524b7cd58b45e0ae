package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/norn-dev/norn/client"
)

func main() {
	ctx := context.Background()
	addr := "127.0.0.1:7711"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	c, err := client.Dial(ctx, []string{addr})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// With an ID of our own the same task can be sent again after any failure.
	task := client.Task{ID: c.NewID(), Queue: "greetings", Payload: []byte(`{"name": "World"}`)}
	receipt, err := c.Enqueue(ctx, task)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("enqueued", receipt.GetId(), "durable copies:", receipt.GetDurableCopies())
	done, err := c.Wait(ctx, task.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.GetState(), string(done.GetResult()))
}
