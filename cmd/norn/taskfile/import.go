package taskfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// batchTasks and batchBytes bound what is enqueued at a time.
	batchTasks = 1000
	batchBytes = 4 << 20
	// maxLine bounds a line: the largest payload and result in base64, with the rest.
	maxLine = 64 << 20
)

// Import gives norn task import.
func Import(h Host) *cobra.Command {
	var prefix, from string
	var fresh, dry bool
	cmd := &cobra.Command{
		Use: "import FILE | URL", Short: "Enqueue tasks from lines of JSON, or from another system", Args: cobra.ExactArgs(1),
		Long: `Enqueue the tasks of a file that norn task export has written. Tasks that are
completed or cancelled are left out, and taken for done by those that depend on them.
The others keep ID, queue, payload, priority, time, headers, key and dependencies; their
attempts begin anew, and the retry policy is that of the queue.

The same file again changes nothing: a task that is there is the same task. With
--new-ids and --queue-prefix all are other tasks than those in the file; a task with a
key has the ID that follows from the key. Tasks older than gc-grace are refused under
their old IDs; with --new-ids they are taken. What is refused is told with its line.

With --from the jobs of another system are enqueued, from where it keeps them: asynq
and sidekiq from redis://[USER:PASSWORD@]HOST[:PORT][/DB], river from postgres://…,
sidekiq and river also from a file with a job in JSON a line. Stop its workers first:
what they are at is taken, too. Type, kind or class becomes the kind, arguments the
payload; what is finished, archived, discarded or dead is left out.`,
		Example: "  norn task import mail.jsonl\n  norn task import mail.jsonl --queue-prefix old/ --dry-run\n  norn task import --from asynq redis://127.0.0.1:6379/0\n  norn task import --from river 'postgres://river@db/app'",
	}
	f := cmd.Flags()
	f.StringVar(&prefix, "queue-prefix", "", "put this before the names of the queues, and give new IDs")
	f.BoolVar(&fresh, "new-ids", false, "give new IDs")
	f.StringVar(&from, "from", "", "`SYSTEM` that has the jobs: asynq, river or sidekiq")
	cmd.MarkFlagsMutuallyExclusive("from", "new-ids")
	f.BoolVar(&dry, "dry-run", false, "read the file and say what would be done")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if from != "" {
			m := &taker{Host: h, system: from, prefix: prefix, now: time.Now()}
			if dry {
				return m.run(cmd.Context(), args[0])
			}
			return h.With(cmd.Context(), func(c *client.Client) error {
				m.c = c
				return m.run(cmd.Context(), args[0])
			})
		}
		finished, plain, lines, err := scan(args[0])
		if err != nil {
			return err
		}
		if dry {
			_, err := fmt.Fprintf(h.Out, "%d tasks would be enqueued, %d are finished\n", lines-len(finished), len(finished))
			return err
		}
		return h.With(cmd.Context(), func(c *client.Client) error {
			m := &importer{Host: h, c: c, finished: finished, prefix: prefix, now: time.Now(), fresh: fresh || prefix != "", ids: make(map[id.ID]id.ID)}
			for _, task := range plain { // before the first is enqueued: those that depend on it may come first
				if m.fresh {
					m.ids[task] = c.NewID()
				}
			}
			return m.run(cmd.Context(), args[0])
		})
	}
	return cmd
}

// each gives the tasks in a file with the numbers of their lines.
func each(file string, do func(line int, t *nornv1.Task) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // what was read counts
	r := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(bytes.TrimSpace(line)) > 0 {
			t := &nornv1.Task{}
			if err = jsonform.Unmarshal(line, t); err == nil {
				err = do(n, t)
			}
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
}

// readLine gives the next line, without its end; io.EOF behind the last one.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("a line of over %d bytes", maxLine)
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// scan reads all of a file before anything is enqueued, and gives the tasks that are finished,
// and of the others those without a key.
func scan(file string) (finished map[id.ID]bool, plain []id.ID, lines int, err error) {
	finished = make(map[id.ID]bool)
	err = each(file, func(_ int, t *nornv1.Task) error {
		lines++
		task, err := id.Parse(t.GetId())
		switch {
		case err != nil:
		case over(t):
			finished[task] = true
		case t.GetKey() == "":
			plain = append(plain, task)
		}
		return err
	})
	return finished, plain, lines, err
}

// over tells whether a task is not to be done any more.
func over(t *nornv1.Task) bool { return !slices.Contains(unfinished(), t.GetState()) }

// importer enqueues tasks batch by batch.
type importer struct {
	Host
	c        *client.Client
	finished map[id.ID]bool
	fresh    bool            // all get new IDs
	ids      map[id.ID]id.ID // new ones, by those in the file; zero: it follows from a key, and is not known yet
	prefix   string
	now      time.Time

	batch                                []client.Task
	lines                                []int
	old                                  []id.ID
	bytes                                int
	enqueued, existed, refused, leftOver int
}

func (m *importer) run(ctx context.Context, file string) error {
	err := each(file, func(line int, t *nornv1.Task) error { return m.add(ctx, line, t) })
	if err == nil {
		err = m.flush(ctx)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(m.Out, "%d tasks were enqueued, %d were there, %d are finished, %d were refused\n", m.enqueued, m.existed, m.leftOver, m.refused)
	if err == nil && m.refused > 0 {
		err = m.Refused
	}
	return err
}

// add takes one more task.
func (m *importer) add(ctx context.Context, line int, t *nornv1.Task) error {
	task, err := id.Parse(t.GetId())
	if err != nil {
		return err
	}
	if over(t) {
		m.leftOver++
		return nil
	}
	spec := client.Task{
		ID: task, Queue: m.prefix + t.GetQueue(), Kind: t.GetKind(), Tags: t.GetTags(), Payload: t.GetPayload(), Priority: t.GetPriority(), OnDependencyFailure: t.GetOnDependencyFailure(),
		Headers: t.GetHeaders(), Key: t.GetKey(), KeyWindow: time.Duration(t.GetKeyWindowSeconds() * float64(time.Second)),
	}
	if at := t.GetNotBefore(); at != nil && at.AsTime().After(m.now) {
		spec.NotBefore = at.AsTime()
	}
	for _, text := range t.GetDependencies() {
		dependency, err := id.Parse(text)
		if err != nil {
			return err
		}
		if m.finished[dependency] {
			continue
		}
		if other, ok := m.ids[dependency]; ok && other.IsZero() {
			if err := m.flush(ctx); err != nil {
				return err
			}
		}
		if other := m.ids[dependency]; !other.IsZero() {
			dependency = other
		}
		spec.Dependencies = append(spec.Dependencies, dependency)
	}
	switch {
	case spec.Key != "":
		spec.ID = id.ID{} // it follows from the key
		m.ids[task] = spec.ID
	case m.fresh:
		spec.ID = m.ids[task]
	}
	m.batch, m.lines, m.old, m.bytes = append(m.batch, spec), append(m.lines, line), append(m.old, task), m.bytes+len(spec.Payload)
	if len(m.batch) >= batchTasks || m.bytes >= batchBytes {
		return m.flush(ctx)
	}
	return nil
}

// flush enqueues what was gathered.
func (m *importer) flush(ctx context.Context) error {
	results, err := m.c.EnqueueMany(ctx, m.batch)
	if err != nil {
		return err
	}
	for i, r := range results {
		switch {
		case r.Err != nil:
			m.refused++
			m.Complain(fmt.Sprintf("line %d: task %s: %v", m.lines[i], m.old[i], r.Err))
		case r.Receipt.GetExisted():
			m.existed++
		default:
			m.enqueued++
		}
		if _, other := m.ids[m.old[i]]; other && !r.ID.IsZero() {
			m.ids[m.old[i]] = r.ID
		}
	}
	m.batch, m.lines, m.old, m.bytes = m.batch[:0], m.lines[:0], m.old[:0], 0
	return nil
}
