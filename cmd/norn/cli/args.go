package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/id"
)

// ParseID reads the ID of a task.
func ParseID(s string) (id.ID, error) {
	i, err := id.Parse(s)
	if err != nil {
		return i, Usage("ID %q: %w", s, err)
	}
	return i, nil
}

// NotEmpty refuses flags that are given without anything in them: a variable of a
// script is not set, and without what it was to hold this would be another task,
// enqueued all the same, the tasks of all queues, or a weaker promise.
func NotEmpty(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		flag := cmd.Flags().Lookup(name)
		given := flag.Value.String()
		if flag.Changed && (given == "" || given == "[]" && flag.Value.Type() == "stringSlice") {
			return Usage("--%s: nothing is given with it; leave it out if none is meant", name)
		}
	}
	return nil
}

// OpenInput opens a file that a flag names. A directory opens too, and cannot be
// read.
func OpenInput(flag, path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, Usage("--%s: %w", flag, err)
	}
	if info, err := file.Stat(); err == nil && info.IsDir() {
		_ = file.Close() // nothing was read
		return nil, Usage("--%s: %s is a directory", flag, path)
	}
	return file, nil
}

// ReadAll reads input that fits into memory. It ends with ctx: who has nothing to type
// after all presses Ctrl-C, and a read that hangs is left behind.
func ReadAll(ctx context.Context, r io.Reader, most int) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	read := make(chan result, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
		read <- result{b, err}
	}()
	var b []byte
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("reading the input: %w", context.Cause(ctx))
	case done := <-read:
		if done.err != nil {
			return nil, done.err
		}
		b = done.b
	}
	if len(b) > most {
		return nil, Usage("the input is over the limit of %d bytes; store it elsewhere and enqueue a reference", most)
	}
	return b, nil
}

// Tasks says how many there are.
func Tasks(n uint64) string {
	if n == 1 {
		return "1 task"
	}
	return render.Number(n) + " tasks"
}
