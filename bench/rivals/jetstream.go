package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	ahead   int    // tasks that a worker holds in advance where the work is not strict
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

func (j jetStream) run(ctx context.Context, dir string, w work) (result, error) {
	var servers processes
	defer func() { servers.stop() }()
	for i := range 3 {
		file := filepath.Join(dir, fmt.Sprintf("n%d.conf", i))
		routes := natsPort + 100
		text := fmt.Sprintf(config, i, natsPort+i, filepath.Join(dir, fmt.Sprint("n", i)), j.sync, routes+i, routes, routes+1, routes+2)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return result{}, err
		}
		if err := servers.start(dir, fmt.Sprint("n", i), j.program, "-c", file); err != nil {
			return result{}, err
		}
	}
	first, err := j.ready(ctx)
	if err != nil {
		return result{}, err
	}
	defer first.conn.Close()
	if _, err := first.js.CreateOrUpdateConsumer(ctx, "tasks", jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: -1, Replicas: 3,
	}); err != nil {
		return result{}, err
	}
	producers, err := links(producers)
	defer closeAll(producers)
	if err != nil {
		return result{}, err
	}
	consumers, err := links(workers)
	defer closeAll(consumers)
	if err != nil {
		return result{}, err
	}
	// As with `norn bench`, what comes before what is measured is a warm-up or the filling.
	if w.kind == claims {
		_, err = enqueue(ctx, producers, w.tasks, many)
	} else {
		_, err = enqueue(ctx, producers, max(w.batch*len(producers), w.tasks/10), w.batch)
	}
	if err != nil {
		return result{}, err
	}
	if w.kind == latency { // what the warm-up has left
		if err := first.js.PurgeStream(ctx); err != nil {
			return result{}, err
		}
	}
	meter := newMeter(servers)
	var r result
	switch w.kind {
	case claims:
		r.rate, err = consume(ctx, consumers, w.tasks, w.batch, w.held(j.ahead))
	case latency:
		r, err = onTime(ctx, producers, consumers, w.tasks, w.rate)
	default:
		r.rate, err = enqueue(ctx, producers, w.tasks, w.batch)
	}
	r.servers, r.load = meter.per(w.tasks)
	return r, err
}

// link is a connection of one producer or worker.
type link struct {
	conn *nats.Conn
	js   stream
}

// stream is the one stream, as one connection sees it.
type stream struct{ jetstream.JetStream }

// PurgeStream takes everything out of it.
func (s stream) PurgeStream(ctx context.Context) error {
	all, err := s.Stream(ctx, "tasks")
	if err != nil {
		return err
	}
	return all.Purge(ctx)
}

// links makes so many, spread over the servers.
func links(n int) (all []link, err error) {
	for i := range n {
		conn, err := nats.Connect(fmt.Sprintf("nats://127.0.0.1:%d", natsPort+i%3), nats.DontRandomize())
		if err != nil {
			return all, err
		}
		js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(1<<12))
		if err != nil {
			conn.Close()
			return all, err
		}
		all = append(all, link{conn, stream{js}})
	}
	return all, nil
}

func closeAll(all []link) {
	for _, l := range all {
		l.conn.Close()
	}
}

// ready waits for a stream of three replicas whose leader answers.
func (j jetStream) ready(ctx context.Context) (first link, err error) {
	err = patience(ctx, func() bool {
		all, err := links(1)
		if err == nil {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err = all[0].js.CreateOrUpdateStream(short, jetstream.StreamConfig{
				Name: "tasks", Subjects: []string{"tasks"}, Replicas: 3, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
			})
		}
		if err != nil {
			closeAll(all)
			return false
		}
		first = all[0]
		return true
	})
	return first, err
}

// enqueue publishes n tasks from all producers, batch at a time, and gives their rate.
func enqueue(ctx context.Context, from []link, n, batch int) (float64, error) {
	body := make([]byte, payload)
	var taken atomic.Int64
	return together(n, len(from), func(i int) error {
		js := from[i].js
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

// consume claims and completes n tasks in all workers, and gives their rate. Each worker
// holds so many in advance, and completes them batch at a time; held as many as a batch has,
// it is strict.
func consume(ctx context.Context, by []link, n, batch, held int) (float64, error) {
	var taken atomic.Int64
	return together(n, len(by), func(i int) error {
		consumer, err := by[i].js.Consumer(ctx, "tasks", "workers")
		if err != nil {
			return err
		}
		for {
			want := held - max(0, int(taken.Add(int64(held)))-n)
			if want <= 0 {
				return nil
			}
			for want > 0 {
				fetched, err := consumer.Fetch(want, jetstream.FetchMaxWait(fetchExpiry))
				if err != nil {
					return err
				}
				before := want
				var got []jetstream.Msg
				for m := range fetched.Messages() {
					want--
					if got = append(got, m); len(got) == batch {
						if err := complete(ctx, by[i].conn, got); err != nil {
							return err
						}
						got = got[:0]
					}
				}
				if err := errors.Join(fetched.Error(), complete(ctx, by[i].conn, got)); err != nil {
					return err
				}
				if want == before {
					return errors.New("no tasks are left, but not all were claimed")
				}
			}
		}
	})
}

// onTime publishes n tasks at a rate, tasks a second, and gives how long each took from when it
// was due to its claim.
func onTime(ctx context.Context, from, by []link, n, rate int) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	due := func(i int) time.Duration { return time.Duration(i) * time.Second / time.Duration(rate) }
	var mu sync.Mutex // guards took
	var took []time.Duration
	var working sync.WaitGroup
	for _, l := range by[:latencyWorkers] {
		working.Go(func() {
			consumer, err := l.js.Consumer(ctx, "tasks", "workers")
			if err != nil {
				return
			}
			for ctx.Err() == nil {
				fetched, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Second))
				if err != nil {
					return
				}
				for m := range fetched.Messages() {
					var number int
					_, _ = fmt.Sscanf(string(m.Data()), "%d", &number)
					mu.Lock()
					if took = append(took, time.Since(began)-due(number)); len(took) == n {
						cancel()
					}
					mu.Unlock()
					_ = m.DoubleAck(ctx) // one that comes too late is measured all the same
				}
			}
		})
	}
	var taken atomic.Int64
	_, err := together(n, len(from), func(i int) error {
		for {
			number := int(taken.Add(1)) - 1
			if number >= n {
				return nil
			}
			time.Sleep(due(number) - time.Since(began))
			if _, err := from[i].js.Publish(ctx, "tasks", fmt.Appendf(nil, "%-*d", payload, number)); err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
	working.Wait()
	if len(took) == 0 {
		return result{}, errors.Join(err, errors.New("nothing was claimed"))
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1e3 }
	return result{p50: at(0.5), p99: at(0.99)}, err
}

// complete acknowledges tasks, all on their way at once, and waits until that is acknowledged.
func complete(ctx context.Context, conn *nats.Conn, got []jetstream.Msg) error {
	switch len(got) {
	case 0:
		return nil
	case 1:
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
func together(n, goroutines int, run func(i int) error) (float64, error) {
	began := time.Now()
	errs := make([]error, goroutines)
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() { errs[i] = run(i) })
	}
	all.Wait()
	return float64(n) / time.Since(began).Seconds(), errors.Join(errs...)
}
