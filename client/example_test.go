package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
)

// connect gives the examples a client of a server in this process. In your program it is
//
//	c, err := client.Dial(ctx, []string{"n1:7711", "n2:7711", "n3:7711"})
func connect() (c *client.Client, closeAll func()) {
	s, err := norntest.New(norntest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if c, err = s.Dial(context.Background()); err != nil {
		log.Fatal(err)
	}
	return c, func() { _, _ = c.Close(), s.Close() }
}

// A task is enqueued under an ID that is made before anything is sent: whoever does not
// hear what came of it enqueues it again, and it is the same task.
func Example() {
	ctx := context.Background()
	c, closeAll := connect()
	defer closeAll()
	task := client.Task{ID: c.NewID(), Queue: "mail", Payload: []byte("ada@example.org"), Priority: 5}
	for range 2 {
		receipt, err := c.Enqueue(ctx, task)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("there before:", receipt.GetExisted())
	}
	got, err := c.Get(ctx, task.ID)
	fmt.Println(got.GetQueue(), string(got.GetPayload()), got.GetPriority(), err)
	// Output:
	// there before: false
	// there before: true
	// mail ada@example.org 5 <nil>
}

// Many tasks are one request; each has its own result.
func ExampleClient_EnqueueMany() {
	c, closeAll := connect()
	defer closeAll()
	results, err := c.EnqueueMany(context.Background(), []client.Task{{Queue: "mail"}, {Queue: "no spaces"}, {Queue: "mail", Delay: time.Hour}})
	if err != nil {
		fmt.Println(err) // no server has answered, say
		return
	}
	for _, r := range results {
		fmt.Println(r.Err == nil, errors.Is(r.Err, client.ErrInvalid))
	}
	// Output:
	// true false
	// false true
	// true false
}

// Programs that do not use package worker claim, and hand the token along: to Norn, and to
// whatever they write to.
func ExampleClient_Claim() {
	ctx := context.Background()
	c, closeAll := connect()
	defer closeAll()
	if _, err := c.Enqueue(ctx, client.Task{Queue: "import", Payload: []byte("1000 rows")}); err != nil {
		fmt.Println(err)
		return
	}
	claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"import"}, Lease: time.Minute, Wait: 5 * time.Second})
	if err != nil || len(claims) == 0 {
		fmt.Println("nothing to do", err)
		return
	}
	mine := claims[0]
	fmt.Println("working on", string(mine.Grant.GetTask().GetPayload()), "until", mine.Deadline.After(time.Now()))
	if _, err := c.Update(ctx, mine.ID, mine.Token, 0, []byte("row 500")); err != nil {
		fmt.Println(err)
	}
	renewed, err := c.Renew(ctx, []client.Ref{mine.Ref()}, time.Minute)
	fmt.Println("renewed", err == nil && renewed[0].Err == nil)
	if _, err := c.Complete(ctx, mine.ID, mine.Token, client.CompleteOptions{Result: []byte("done")}); err != nil {
		fmt.Println(err)
	}
	task, err := c.Wait(ctx, mine.ID)
	fmt.Println(task.GetState(), string(task.GetResult()), err)
	_, err = c.Fail(ctx, mine.ID, mine.Token, client.FailOptions{Error: "too late"})
	fmt.Println("the claim is over:", errors.Is(err, client.ErrClaimLost))
	// Output:
	// working on 1000 rows until true
	// renewed true
	// STATE_COMPLETED done <nil>
	// the claim is over: true
}

// Pages are read as they are needed.
func ExampleClient_List() {
	ctx := context.Background()
	c, closeAll := connect()
	defer closeAll()
	for i := range 3 {
		if _, err := c.Enqueue(ctx, client.Task{Queue: "mail", Payload: fmt.Append(nil, i)}); err != nil {
			fmt.Println(err)
		}
	}
	n := 0
	for task, err := range c.List(ctx, client.Filter{Queue: "mail"}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if task.GetState().String() == "STATE_READY" {
			n++
		}
	}
	fmt.Println(n, "ready")
	// Output: 3 ready
}

// A task with a key is there once, however often it is enqueued, until it is finished.
func ExampleTask_key() {
	ctx := context.Background()
	c, closeAll := connect()
	defer closeAll()
	report := client.Task{Queue: "reports", Key: "customer 7"} // with a KeyWindow: once per window, whatever becomes of it
	first, err := c.Enqueue(ctx, report)
	fmt.Println(first.GetExisted(), err)
	second, err := c.Enqueue(ctx, report)
	fmt.Println(second.GetExisted(), first.GetId() == second.GetId(), err)
	// Output:
	// false <nil>
	// true true <nil>
}

// What nobody knows is called unknown.
func ExampleErrUnknown() {
	s, err := norntest.New(norntest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	c, err := s.Dial(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s.Down() // an outage
	task := client.Task{ID: c.NewID(), Queue: "mail"}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = c.Enqueue(ctx, task)
	fmt.Println("unavailable:", errors.Is(err, client.ErrUnavailable), "may have happened:", errors.Is(err, client.ErrUnknown))
	if err := s.Up(); err != nil {
		fmt.Println(err)
	}
	_, err = c.Enqueue(context.Background(), task) // the same ID: it is there once, whatever happened before
	fmt.Println(err)
	// Output:
	// unavailable: true may have happened: false
	// <nil>
}
