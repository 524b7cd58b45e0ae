package outboxtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // or the driver that you have

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// printer stands for a client.Client.
type printer struct{}

func (printer) EnqueueMany(_ context.Context, tasks []client.Task, _ ...client.WriteOption) ([]client.Result, error) {
	results := make([]client.Result, len(tasks))
	for i, t := range tasks {
		fmt.Printf("enqueued on %s: %s\n", t.Queue, t.Payload)
		results[i] = client.Result{ID: t.ID, Receipt: &nornv1.Receipt{Id: t.ID.String()}}
	}
	return results, nil
}

// order writes an order and the task that mails about it, both or neither.
func order(ctx context.Context, db *sql.DB, box *outbox.Outbox, item string, inStock bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing after a commit
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (item) VALUES (?)", item); err != nil {
		return err
	}
	if _, err := box.Enqueue(ctx, tx, client.Task{Queue: "mail", Payload: []byte("you have ordered " + item)}); err != nil {
		return err
	}
	if !inStock {
		return fmt.Errorf("%s is sold out", item)
	}
	return tx.Commit()
}

func Example() {
	if err := shop(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// tea is sold out
	// enqueued on mail: you have ordered coffee
}

func shop() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	if err != nil {
		return err
	}
	defer db.Close()
	box, err := outbox.New(outbox.SQLite, outbox.Options{})
	if err != nil {
		return err
	}
	if err := box.CreateTable(ctx, db); err != nil { // or run what `norn outbox schema sqlite` prints
		return err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (item TEXT NOT NULL)"); err != nil {
		return err
	}
	for _, item := range []string{"coffee", "tea"} {
		if err := order(ctx, db, box, item, item != "tea"); err != nil {
			fmt.Println(err)
		}
	}
	// c, err := client.Dial(ctx, []string{"127.0.0.1:7711"})
	relay, err := box.Relay(db, printer{}, outbox.Config{ExitWhenEmpty: true}) // a service leaves that out
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}
