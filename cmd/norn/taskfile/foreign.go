package taskfile

import (
	"context"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/taskfile/foreign"
)

// taker enqueues the jobs of another system.
type taker struct {
	Host
	c              *client.Client // nil: it only counts
	system, prefix string
	now            time.Time

	batch                                []client.Task
	where                                []string
	bytes                                int
	enqueued, existed, refused, leftOver int
}

// run enqueues all at an address.
func (m *taker) run(ctx context.Context, address string) error {
	err := foreign.Each(ctx, m.system, address, func(j *foreign.Job) error { return m.add(ctx, j) })
	if err == nil {
		err = m.flush(ctx)
	}
	if err != nil {
		return err
	}
	if m.c == nil {
		_, err = fmt.Fprintf(m.Out, "%d tasks would be enqueued, %d are finished\n", m.enqueued, m.leftOver)
		return err
	}
	_, err = fmt.Fprintf(m.Out, "%d tasks were enqueued, %d were there, %d are finished, %d were refused\n", m.enqueued, m.existed, m.leftOver, m.refused)
	if err == nil && m.refused > 0 {
		err = m.Refused
	}
	return err
}

// add takes one more. Its key is what it is called there, so that while it is not finished the
// same import again changes nothing.
func (m *taker) add(ctx context.Context, j *foreign.Job) error {
	if j.Finished {
		m.leftOver++
		return nil
	}
	if m.c == nil {
		m.enqueued++
		return nil
	}
	t := client.Task{
		Queue: foreign.QueueName(m.prefix + j.Queue), Kind: j.Kind, Tags: j.Tags, Payload: j.Payload, Priority: j.Priority, Headers: j.Headers,
		Key: m.system + "/" + j.Queue + "/" + j.ID,
	}
	if j.NotBefore.After(m.now) {
		t.NotBefore = j.NotBefore
	}
	m.batch, m.where, m.bytes = append(m.batch, t), append(m.where, j.Where+": "+j.ID), m.bytes+len(t.Payload)
	if len(m.batch) >= batchTasks || m.bytes >= batchBytes {
		return m.flush(ctx)
	}
	return nil
}

// flush enqueues what was gathered.
func (m *taker) flush(ctx context.Context) error {
	if len(m.batch) == 0 {
		return nil
	}
	results, err := m.c.EnqueueMany(ctx, m.batch)
	if err != nil {
		return err
	}
	for i, r := range results {
		switch {
		case r.Err != nil:
			m.refused++
			m.Complain(fmt.Sprintf("%s: %v", m.where[i], r.Err))
		case r.Receipt.GetExisted():
			m.existed++
		default:
			m.enqueued++
		}
	}
	m.batch, m.where, m.bytes = m.batch[:0], m.where[:0], 0
	return nil
}
