package norntest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/client/worker"
)

// sendMail is a handler of the program under test.
func sendMail(_ context.Context, t *worker.Task) error {
	if len(t.Payload()) == 0 {
		return worker.Discard(errors.New("nobody to write to"))
	}
	t.SetResult([]byte("sent"))
	return nil
}

// A test of one handler.
func ExampleRun() {
	testSendMail := func(t *testing.T) {
		done := norntest.Run(t, sendMail, client.Task{Payload: []byte("ada@example.org")})
		if string(done.GetResult()) != "sent" {
			t.Errorf("got %v", done)
		}
		if dead := norntest.Run(t, sendMail, client.Task{}); dead.GetError() != "nobody to write to" {
			t.Errorf("got %v", dead)
		}
	}
	_ = testSendMail // in a program of yours it is func TestSendMail
}

// A test with time in it: in a bubble an hour takes no time.
func ExampleStart() {
	testRetries := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := norntest.Start(t, norntest.Options{MaxAttempts: 2}).Client(t)
			task := client.Task{ID: c.NewID(), Queue: "mail", Delay: time.Hour}
			if _, err := c.Enqueue(t.Context(), task); err != nil {
				t.Fatal(err)
			}
			w := worker.New(c, worker.Config{})
			w.Handle("mail", sendMail)
			go func() { _ = w.Run(t.Context()) }()
			done, err := c.Wait(t.Context(), task.ID)
			fmt.Println(done.GetState(), err)
		})
	}
	_ = testRetries
}

// Without package testing: a server that a program moves through time.
func ExampleServer_Advance() {
	ctx := context.Background()
	s, err := norntest.New(norntest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	c, err := s.Dial(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if _, err := c.Enqueue(ctx, client.Task{Queue: "mail", Delay: 24 * time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	ask := client.ClaimRequest{Queues: []string{"mail"}}
	today, err := c.Claim(ctx, ask)
	fmt.Println(len(today), err)
	s.Advance(24 * time.Hour)
	tomorrow, err := c.Claim(ctx, ask)
	fmt.Println(len(tomorrow), err)
	// Output:
	// 0 <nil>
	// 1 <nil>
}
