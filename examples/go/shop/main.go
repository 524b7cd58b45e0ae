package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // or the driver of your database

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/client/worker"
)

type order struct{ Item, To string }

type shop struct {
	db   *sql.DB
	box  *outbox.Outbox
	wake func() // tells the relay that there is something, so that it need not look by itself
}

// open makes the tables where they are missing.
func open(ctx context.Context, file string) (*shop, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	if err != nil {
		return nil, err
	}
	box, err := outbox.New(outbox.SQLite, outbox.Options{})
	if err != nil {
		return nil, err
	}
	if err := box.CreateTable(ctx, db); err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (item TEXT NOT NULL, buyer TEXT NOT NULL)")
	return &shop{db: db, box: box, wake: func() {}}, err
}

// place writes an order and the task that mails about it, both or neither.
func (s *shop) place(ctx context.Context, o order) (task string, err error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (item, buyer) VALUES (?, ?)", o.Item, o.To); err != nil {
		return "", err
	}
	payload, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	id, err := s.box.Enqueue(ctx, tx, client.Task{Queue: "mail", Payload: payload})
	if err != nil {
		return "", err
	}
	if o.Item == "unicorn" {
		return "", errors.New("sold out") // the transaction ends without the order and without the task
	}
	if err := tx.Commit(); err != nil {
		return "", err
	}
	s.wake()
	return id.String(), nil
}

// ServeHTTP takes POST /orders {"item": …, "to": …} and answers with the task's ID.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&o); err != nil || o.Item == "" || o.To == "" {
		http.Error(w, `want {"item": …, "to": …}`, http.StatusBadRequest)
		return
	}
	task, err := s.place(r.Context(), o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"task": task})
}

// mail would send it. Handlers may run twice: what they do is to be the same then.
func mail(_ context.Context, t *worker.Task, o order) error {
	slog.Info("mailing", "to", o.To, "item", o.Item, "attempt", t.Attempt())
	t.SetResult([]byte("mailed to " + o.To))
	return nil
}

func run(ctx context.Context, addrs []string, file, listen string) error {
	s, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer s.db.Close()
	c, err := client.Dial(ctx, addrs)
	if err != nil {
		return err
	}
	defer c.Close()
	relay, err := s.box.Relay(s.db, c, outbox.Config{Logger: slog.Default()})
	if err != nil {
		return err
	}
	s.wake = relay.Wake
	w := worker.New(c, worker.Config{Slots: 4, Logger: slog.Default()})
	worker.HandleJSON(w, "mail", mail)

	mux := http.NewServeMux()
	mux.Handle("POST /orders", s)
	server := &http.Server{Addr: listen, Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	// Each part ends when one of them has failed or a signal has come; each finishes what it began.
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	parts := map[string]func() error{
		"relay":  func() error { return relay.Run(ctx) },
		"worker": func() error { return w.Run(context.WithoutCancel(ctx)) },
		"http":   server.ListenAndServe,
	}
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = server.Shutdown(patience)
		_ = w.Stop(patience)
	})
	ended := make(chan struct{})
	for name, part := range parts {
		go func() {
			if err := part(); err != nil && !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
				slog.Error(name, "error", err)
				end(err)
			}
			ended <- struct{}{}
		}()
	}
	for range parts {
		<-ended
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func main() {
	addr := flag.String("addr", "127.0.0.1:7711", "nodes, with commas between")
	file := flag.String("db", "shop.db", "file of the database")
	listen := flag.String("listen", "127.0.0.1:8080", "address for orders")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*addr, ","), *file, *listen); err != nil {
		slog.Error("shop", "error", err)
		os.Exit(1)
	}
}
