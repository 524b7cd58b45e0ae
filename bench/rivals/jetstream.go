package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStream is three servers of NATS with a stream and a consumer of three replicas.
type jetStream struct {
	program string
	sync    string // sync_interval
}

const (
	natsPort    = 38811 // for clients; the servers' own are a hundred above
	fetchExpiry = 5 * time.Second
)

// config is what a server is told.
const config = `
server_name: n%d
listen: 127.0.0.1:%d
jetstream { store_dir: %q, sync_interval: %s }
cluster {
  name: rivals
  listen: 127.0.0.1:%d
  routes: [nats://127.0.0.1:%d, nats://127.0.0.1:%d, nats://127.0.0.1:%d]
}
`

func (j jetStream) run(ctx context.Context, dir string, w work) (float64, error) {
	var servers processes
	defer func() { servers.stop() }()
	for i := range 3 {
		file := filepath.Join(dir, fmt.Sprintf("n%d.conf", i))
		routes := natsPort + 100
		text := fmt.Sprintf(config, i, natsPort+i, filepath.Join(dir, fmt.Sprint("n", i)), j.sync, routes+i, routes, routes+1, routes+2)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return 0, err
		}
		if err := servers.start(dir, fmt.Sprint("n", i), j.program, "-c", file); err != nil {
			return 0, err
		}
	}
	conn, js, err := j.ready(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	consumer, err := js.CreateOrUpdateConsumer(ctx, "tasks", jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1, Replicas: 3,
	})
	if err != nil {
		return 0, err
	}
	// As with `norn bench`, what comes before what is measured is a warm-up or the filling.
	if _, err := enqueue(ctx, js, max(w.batch*producers, w.tasks/10), w.batch); err != nil || !w.claim {
		if err != nil {
			return 0, err
		}
		return enqueue(ctx, js, w.tasks, w.batch)
	}
	if _, err := enqueue(ctx, js, w.tasks, many); err != nil {
		return 0, err
	}
	return consume(ctx, conn, consumer, w.tasks, w.batch)
}

// ready waits for a stream of three replicas whose leader answers.
func (j jetStream) ready(ctx context.Context) (*nats.Conn, jetstream.JetStream, error) {
	var conn *nats.Conn
	var js jetstream.JetStream
	err := patience(ctx, func() bool {
		c, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", natsPort))
		if err != nil {
			return false
		}
		js, err = jetstream.New(c, jetstream.WithPublishAsyncMaxPending(1<<16))
		if err == nil {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err = js.CreateOrUpdateStream(short, jetstream.StreamConfig{
				Name: "tasks", Subjects: []string{"tasks"}, Replicas: 3, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
			})
		}
		if err != nil {
			c.Close()
			return false
		}
		conn = c
		return true
	})
	return conn, js, err
}

// enqueue publishes n tasks from all producers, batch at a time, and gives their rate.
func enqueue(ctx context.Context, js jetstream.JetStream, n, batch int) (float64, error) {
	body := make([]byte, payload)
	var taken atomic.Int64
	return together(n, producers, func() error {
		for int(taken.Add(int64(batch))) <= n {
			if batch == 1 {
				if _, err := js.Publish(ctx, "tasks", body); err != nil {
					return err
				}
				continue
			}
			acks := make([]jetstream.PubAckFuture, batch)
			for i := range acks {
				var err error
				if acks[i], err = js.PublishAsync("tasks", body); err != nil {
					return err
				}
			}
			for _, ack := range acks {
				select {
				case <-ack.Ok():
				case err := <-ack.Err():
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
}

// consume claims and completes n tasks in all workers, batch at a time, and gives their rate.
func consume(ctx context.Context, conn *nats.Conn, consumer jetstream.Consumer, n, batch int) (float64, error) {
	var taken atomic.Int64
	return together(n, workers, func() error {
		under := make(chan error, 1) // the completion that is on its way
		under <- nil
		for int(taken.Add(int64(batch))) <= n {
			var got []jetstream.Msg
			for len(got) < batch {
				fetched, err := consumer.Fetch(batch-len(got), jetstream.FetchMaxWait(fetchExpiry))
				if err != nil {
					return err
				}
				before := len(got)
				for m := range fetched.Messages() {
					got = append(got, m)
				}
				if err := fetched.Error(); err != nil {
					return err
				}
				if len(got) == before {
					return errors.New("no tasks are left, but not all were claimed")
				}
			}
			if err := <-under; err != nil {
				return err
			}
			go func() { under <- complete(ctx, conn, got) }()
		}
		return <-under
	})
}

// complete acknowledges tasks, all on their way at once, and waits until that is acknowledged.
func complete(ctx context.Context, conn *nats.Conn, got []jetstream.Msg) error {
	if len(got) == 1 {
		return got[0].DoubleAck(ctx)
	}
	inbox := conn.NewRespInbox()
	answers, err := conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = answers.Unsubscribe() }()
	for _, m := range got {
		if err := conn.PublishRequest(m.Reply(), inbox, []byte("+ACK")); err != nil {
			return err
		}
	}
	for range got {
		if _, err := answers.NextMsgWithContext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// together runs the same thing in several goroutines, and gives the rate of n tasks.
func together(n, goroutines int, run func() error) (float64, error) {
	began := time.Now()
	errs := make([]error, goroutines)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() { errs[i] = run() })
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds(), errors.Join(errs...)
}
