package tasks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/intake"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// enqueueFlags are the flags of task enqueue.
type enqueueFlags struct {
	queue, file, jsonl, lines  string
	id, at, key, kind          string
	onFailure                  string
	priority                   int32
	delay, keyWindow           time.Duration
	after                      []string
	headers, tags              []string
	maxAttempts                uint32
	atSet, delaySet, onFailSet bool
}

func (a commands) enqueue() *cobra.Command {
	var e enqueueFlags
	cmd := &cobra.Command{
		Use: "enqueue -q QUEUE [PAYLOAD | --file FILE | - | --lines FILE | --jsonl FILE]", Short: "Enqueue tasks",
		Args: cobra.MaximumNArgs(1),
		Long: `Enqueue one task with a payload from the command line, a file or standard input
(-), or many: one per line of a file (--lines), or one per JSON object of a file
of lines (--jsonl). Without any of them the payload is empty; that is refused where
bytes wait on standard input, so that none are lost: - reads them, '' means empty.

IDs are printed one per line as the tasks are accepted; -o json gives the
receipts. A task that is refused is told on standard error with the number of its
line; the others are enqueued all the same, and the exit code is the highest that
any of them asks for. A task that is enqueued again under its --id is the same
task.

With --key there is one task with that key in the queue until it is finished, with
--key-window one per window, whatever becomes of it. The same task again prints
the same ID, and another one with the key is refused with exit code 5. With --delay
each is another one, as its time is counted from now; with --at it is the same.

A task with --after waits until all those tasks are completed. When one of them
dies or is cancelled it is cancelled too, unless --on-dep-failure says otherwise.

An object of --jsonl has these keys, all optional; what it leaves out comes from
the flags:

` + intake.Keys,
		Example: `  norn task enqueue -q mail 'hello'
  norn task enqueue -q mail --kind send-welcome --tag vip 'ada@example.org'
  norn task enqueue -q video --file film.json --priority 10 --delay 2h
  norn task enqueue -q report --key "$(date +%F)" 'daily report'
  norn task enqueue -q notify 'all done' --after "$A,$B" --on-dep-failure run
  find src -name '*.go' | norn task enqueue -q files --lines -
  echo '{"payload_text":"hi","priority":5,"headers":{"from":"me"}}' | norn task enqueue -q mail --jsonl -`,
	}
	level := durability(cmd)
	f := cmd.Flags()
	f.StringVarP(&e.queue, "queue", "q", "", "the `queue`: [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}")
	f.StringVar(&e.file, "file", "", "payload from this `file`")
	f.StringVar(&e.jsonl, "jsonl", "", "one task per line of this `file`, a JSON object each (-: standard input)")
	f.StringVar(&e.lines, "lines", "", "one task per line of this `file`, the payload (-: standard input)")
	f.StringVar(&e.id, "id", "", "the task's ID, 27 characters")
	e.sorts(f)
	f.StringVar(&e.key, "key", "", "unique `key` in the queue")
	f.DurationVar(&e.keyWindow, "key-window", 0, "how long the key is taken (default: until the task is finished)")
	f.DurationVar(&e.delay, "delay", 0, "not before so long from now")
	f.StringVar(&e.at, "at", "", "not before this `time`, RFC 3339")
	f.StringSliceVar(&e.after, "after", nil, "not before these tasks (`IDs`) are completed")
	f.StringVar(&e.onFailure, "on-dep-failure", "cancel", "when one of them dies: cancel, run or wait")
	f.StringArrayVar(&e.headers, "header", nil, "`key=value` that travels with the task (repeatable)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e.atSet, e.delaySet, e.onFailSet = f.Changed("at"), f.Changed("delay"), f.Changed("on-dep-failure")
		base, err := e.task(cmd)
		if err != nil {
			return err
		}
		option, err := level()
		if err != nil {
			return err
		}
		src, done, err := a.source(cmd.Context(), &e, base, args, f.Changed("file"))
		if err != nil {
			return err
		}
		defer done()
		return a.With(cmd.Context(), func(c *client.Client) error { return a.enqueueAll(cmd.Context(), c, src, option) })
	}
	return cmd
}

// sorts adds the flags that say what sort of task it is.
func (e *enqueueFlags) sorts(f *pflag.FlagSet) {
	f.StringVar(&e.kind, "kind", "", "`kind` of the task: what is to be done")
	f.StringArrayVar(&e.tags, "tag", nil, "`tag` to find the task by (repeatable)")
	f.Int32Var(&e.priority, "priority", 0, "high first; all of int32")
	f.Uint32Var(&e.maxAttempts, "max-attempts", 0, "attempts before the task is dead (default: the server's, 25)")
}

// task is what the flags say about every task.
func (e *enqueueFlags) task(cmd *cobra.Command) (t client.Task, err error) {
	if err := cli.NotEmpty(cmd, "file", "jsonl", "lines", "id", "key", "kind", "after"); err != nil {
		return t, err
	}
	t = client.Task{Queue: e.queue, Priority: e.priority, Delay: e.delay, Key: e.key, KeyWindow: e.keyWindow, Kind: e.kind, Tags: e.tags}
	switch {
	case e.queue == "" && e.jsonl == "":
		return t, cli.Usage("no queue; name one with -q")
	case e.queue != "" && !proto.ValidQueue(e.queue):
		return t, cli.Usage("--queue: %v", proto.CheckQueue(e.queue))
	case proto.CheckKind(e.kind) != nil:
		return t, cli.Usage("--kind: %v", proto.CheckKind(e.kind))
	case proto.CheckTags(e.tags) != nil:
		return t, cli.Usage("--tag: %v", proto.CheckTags(e.tags))
	case e.atSet && e.delaySet:
		return t, cli.Usage("--at and --delay: give one of them")
	case e.delay < 0:
		return t, cli.Usage("--delay: %s is negative", e.delay)
	case cmd.Flags().Changed("max-attempts") && e.maxAttempts == 0:
		return t, cli.Usage("--max-attempts: 0 is no attempt; leave it out for what the queue or the server says")
	case e.keyWindow < 0 || e.keyWindow > 0 && e.key == "":
		return t, cli.Usage("--key-window: it needs a --key, and must not be negative")
	case e.onFailSet && len(e.after) == 0 && e.jsonl == "":
		return t, cli.Usage("--on-dep-failure: it needs --after")
	case (e.id != "" || e.key != "") && (e.lines != "" || e.jsonl != ""):
		return t, cli.Usage("--id and --key name one task, and --lines and --jsonl make many")
	}
	if e.id != "" {
		if t.ID, err = id.ParseNew(e.id); err != nil {
			return t, cli.Usage("--id: %w", err)
		}
	}
	if e.atSet {
		if t.NotBefore, err = intake.Instant(e.at); err != nil {
			return t, cli.Usage("--at: %w", err)
		}
	}
	if t.Dependencies, err = intake.IDs(e.after); err != nil {
		return t, cli.Usage("--after: %w", err)
	}
	if t.OnDependencyFailure, err = intake.OnFailure(e.onFailure); err != nil {
		return t, cli.Usage("--on-dep-failure: %w", err)
	}
	if e.maxAttempts > 0 {
		t.Retry = &nornv1.RetryPolicy{MaxAttempts: e.maxAttempts}
	}
	for _, h := range e.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok || k == "" {
			return t, cli.Usage("--header: %q is not key=value", h)
		}
		if t.Headers == nil {
			t.Headers = make(map[string]string)
		}
		t.Headers[k] = v
	}
	return t, nil
}

// source is where the tasks come from. done closes it.
func (a commands) source(ctx context.Context, e *enqueueFlags, base client.Task, args []string, fileSet bool) (src intake.Source, done func(), err error) {
	given := 0
	for _, is := range []bool{len(args) > 0, fileSet, e.jsonl != "", e.lines != ""} {
		if is {
			given++
		}
	}
	if given > 1 {
		return nil, nil, cli.Usage("give one of PAYLOAD, --file, --lines and --jsonl")
	}
	path := e.file + e.jsonl + e.lines
	stdin := path == "-" || len(args) > 0 && args[0] == "-"
	in, done := a.In, func() {}
	if path != "" && !stdin {
		name := "file"
		switch path {
		case e.jsonl:
			name = "jsonl"
		case e.lines:
			name = "lines"
		}
		file, err := cli.OpenInput(name, path)
		if err != nil {
			return nil, nil, err
		}
		in, done = file, func() { _ = file.Close() }
	}
	switch {
	case e.jsonl != "":
		note := func(line int, text string) { a.Note("line %d: %s", line, text) }
		return intake.JSONLines(in, base, note), done, nil
	case e.lines != "":
		return intake.Lines(in, base), done, nil
	case len(args) > 0 && !stdin:
		base.Payload = []byte(args[0])
	case len(args) == 0 && !fileSet && inputWaits(in):
		return nil, nil, cli.Usage("no PAYLOAD, and standard input has bytes that would be left out: give - to read them, or '' for an empty payload")
	case fileSet || stdin:
		if base.Payload, err = cli.ReadAll(ctx, in, proto.MaxPayloadCeiling); err != nil {
			done()
			return nil, nil, err
		}
	}
	return intake.One(base), done, nil
}

// enqueueAll sends tasks and reports them in their order.
func (a commands) enqueueAll(ctx context.Context, c *client.Client, src intake.Source, option client.WriteOption) error {
	defer a.NoteFew(c)
	w := a.Writer()
	list := render.NewList(w, func(r *nornv1.Receipt) jsonform.Value { return jsonform.Of(r) },
		render.Column[*nornv1.Receipt]{Cell: (*nornv1.Receipt).GetId})
	progress := a.Progress("enqueued")
	worst := 0
	to := intake.Target{
		Name: func(tasks []client.Task) { name(c, tasks) },
		Send: func(ctx context.Context, tasks []client.Task) ([]client.Result, error) {
			return c.EnqueueMany(ctx, tasks, option)
		},
	}
	if err := c.Connect(ctx); err != nil { // IDs are drawn by what the servers say
		return errors.Join(err, list.Close())
	}
	var written error
	err := intake.Run(ctx, src, to, func(b *intake.Batch) bool {
		problems := a.refusals(b, list)
		if len(problems) > 0 {
			progress.Clear()
		}
		for _, p := range problems {
			worst = max(worst, cli.ExitCode(p))
			a.Complain(cli.Message(p))
		}
		progress.Set(uint64(list.Len()))
		written = list.Flush()
		return written == nil
	})
	progress.Clear()
	if closed := list.Close(); written == nil {
		written = closed
	}
	switch {
	case err == nil:
		err = written
	case ctx.Err() == nil:
		err = fmt.Errorf("reading the tasks: %w", err)
	default:
		err = fmt.Errorf("interrupted after %d tasks", list.Len())
	}
	if err == nil && worst > 0 {
		err = cli.Reported{Code: worst}
	}
	return err
}

// name gives an ID to every task that has none. That of a unique key is the
// client's to find out.
func name(c *client.Client, tasks []client.Task) {
	missing := 0
	for i := range tasks {
		if tasks[i].ID.IsZero() && tasks[i].Key == "" {
			missing++
		}
	}
	ids := c.NewIDs(missing)
	for i := range tasks {
		if tasks[i].ID.IsZero() && tasks[i].Key == "" {
			tasks[i].ID, ids = ids[0], ids[1:]
		}
	}
}

// named says which task it is whose outcome is unknown.
func named(err error, task id.ID, key string) error {
	if task.IsZero() && key != "" {
		return fmt.Errorf("%w; its key is %q", err, key)
	}
	return fmt.Errorf("%w; its ID is %s", err, task)
}

// inDoubt names the tasks of a batch of which it is not known whether they were enqueued:
// under their IDs they can be looked for, or sent again, and under no others.
func inDoubt(b *intake.Batch) (problems []error) {
	if len(b.Tasks) == 1 || !errors.Is(b.Err, client.ErrUnknown) {
		return nil // it has been named, or there is none
	}
	for i := range b.Tasks {
		problems = append(problems, named(fmt.Errorf("line %d: %w", b.Lines[i], errInDoubt), b.Tasks[i].ID, b.Tasks[i].Key))
	}
	return problems
}

// errInDoubt is told of each task of a batch that was not answered.
var errInDoubt = errors.New("outcome unknown")

// refusals adds the receipts of a batch to the list, and gives what was refused
// in the order of the lines.
func (a commands) refusals(b *intake.Batch, list *render.List[*nornv1.Receipt]) (problems []error) {
	bad := b.Bad
	before := func(line int) {
		for len(bad) > 0 && bad[0].Line < line {
			problems, bad = append(problems, cli.UsageError{Err: bad[0]}), bad[1:]
		}
	}
	if b.Err != nil && len(b.Tasks) > 0 {
		first, last := b.Lines[0], b.Lines[len(b.Lines)-1]
		before(last)
		err := b.Err
		if len(b.Tasks) == 1 && errors.Is(err, client.ErrUnknown) {
			err = named(err, b.Tasks[0].ID, b.Tasks[0].Key)
		}
		if first > 0 {
			err = fmt.Errorf("lines %d to %d, and what follows: %w", first, last, err)
		}
		return append(append(problems, err), inDoubt(b)...)
	}
	for i, r := range b.Results {
		before(b.Lines[i])
		if errors.Is(r.Err, client.ErrUnknown) {
			r.Err = named(r.Err, r.ID, b.Tasks[i].Key)
		}
		switch {
		case r.Err == nil:
			list.Add(r.Receipt)
		case b.Lines[i] > 0:
			problems = append(problems, fmt.Errorf("line %d: %w", b.Lines[i], r.Err))
		default:
			problems = append(problems, r.Err)
		}
	}
	before(int(^uint(0) >> 1))
	return problems
}
