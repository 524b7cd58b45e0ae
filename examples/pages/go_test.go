package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/norntest"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// connect is the first block of the page.
func connect(ctx context.Context) (*client.Client, error) {
	c, err := client.Dial(ctx, []string{"10.0.0.1:7711", "10.0.0.2:7711", "10.0.0.3:7711"},
		client.WithLogger(slog.Default()))
	return c, err
}

type mail struct{ To, Subject string }

func enqueue(ctx context.Context, c *client.Client) (client.Task, error) {
	payload, err := json.Marshal(mail{To: "ada@example.org", Subject: "Welcome"})
	if err != nil {
		return client.Task{}, err
	}
	task := client.Task{ID: c.NewID(), Queue: "mail", Payload: payload}
	receipt, err := c.Enqueue(ctx, task)
	if errors.Is(err, client.ErrUnknown) {
		receipt, err = c.Enqueue(ctx, task) // the same ID: the same task, however often
	}
	if err != nil {
		return task, err
	}
	slog.Info("enqueued", "task", task.ID, "copies", receipt.GetDurableCopies())
	return task, nil
}

func variants(ctx context.Context, c *client.Client, first client.Task) ([]client.Result, error) {
	return c.EnqueueMany(ctx, []client.Task{
		{Queue: "mail", Payload: []byte(`{}`), Priority: 10},          // before all with less
		{Queue: "mail", Payload: []byte(`{}`), Delay: time.Hour},      // not before
		{Queue: "mail", Key: "welcome/42", KeyWindow: 24 * time.Hour}, // once a day
		{Queue: "reports", Dependencies: []id.ID{first.ID}},           // after the first
		{Queue: "mail", Retry: &nornv1.RetryPolicy{MaxAttempts: 3}},   // instead of the queue's policy
	})
}

func work(ctx context.Context, c *client.Client) error {
	w := worker.New(c, worker.Config{
		Name:   "", // "" is a name that nobody else has; a name of your own is exclusive
		Slots:  8,  // handlers at once
		Logger: slog.Default(),
	})
	worker.HandleJSON(w, "mail", sendMail)
	return w.Run(ctx)
}

func sendMail(ctx context.Context, t *worker.Task, m mail) error {
	switch {
	case m.To == "":
		return worker.Discard(errors.New("no address")) // dead at once: no retry can help
	case t.Attempt() == 1 && m.Subject == "Busy":
		return worker.RetryAfter(5*time.Second, errors.New("451 try again later"))
	}
	if err := deliver(ctx, m, t.Token()); err != nil {
		return err // a failed attempt; the retry policy says when the next one begins
	}
	t.SetResult([]byte("sent to " + m.To))
	return nil
}

// deliver would pass the token to what it writes to.
func deliver(ctx context.Context, _ mail, _ uint64) error { return ctx.Err() }

func result(ctx context.Context, c *client.Client, task client.Task) (string, error) {
	done, err := c.Wait(ctx, task.ID)
	if err != nil {
		return "", err
	}
	if done.GetState() != nornv1.State_STATE_COMPLETED {
		return "", fmt.Errorf("task %s: %s", task.ID, done.GetError())
	}
	return string(done.GetResult()), nil
}

func importRows(ctx context.Context, t *worker.Task) error {
	row := 0
	if t.Checkpoint() != nil { // what the attempt before got to
		if err := json.Unmarshal(t.Checkpoint(), &row); err != nil {
			return worker.Discard(err)
		}
	}
	for ; row < 1000; row++ {
		if row%100 == 0 {
			if err := t.Update(ctx, fmt.Append(nil, row)); err != nil {
				return err // the lease is lost, say: somebody else has the task
			}
		}
	}
	return nil
}

// TestGoPage runs the code of docs/how-to/go.md.
func TestGoPage(t *testing.T) {
	if c, err := connect(t.Context()); err != nil {
		t.Error(err)
	} else if err := c.Close(); err != nil {
		t.Error(err)
	}
	c := norntest.Start(t).Client(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	task, err := enqueue(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	all, err := variants(ctx, c, task)
	if err != nil || len(all) != 5 {
		t.Fatal(all, err)
	}
	for i, r := range all {
		if r.Err != nil {
			t.Errorf("variant %d: %v", i, r.Err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, c) }()
	if got, err := result(ctx, c, task); err != nil || got != "sent to ada@example.org" {
		t.Errorf("%q, %v", got, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSendMail(t *testing.T) {
	handler := func(ctx context.Context, t *worker.Task) error {
		return sendMail(ctx, t, mail{To: string(t.Payload())})
	}
	done := norntest.Run(t, handler, client.Task{Payload: []byte("ada@example.org")})
	if string(done.GetResult()) != "sent to ada@example.org" {
		t.Errorf("%v: %s", done.GetState(), done.GetError())
	}
}

// TestCheckpointOfThePage runs the handler with the checkpoint.
func TestCheckpointOfThePage(t *testing.T) {
	if done := norntest.Run(t, importRows, client.Task{}); done.GetState() != nornv1.State_STATE_COMPLETED {
		t.Errorf("%v: %s", done.GetState(), done.GetError())
	}
}
