package client

import (
	"context"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Attention tells what of the cluster needs somebody, the worst first, with what to do about it,
// as far as this client may see.
func (k Cluster) Attention(ctx context.Context) (*nornv1.AttentionReply, error) {
	m := &nornv1.AttentionReply{}
	return m, k.c.read(ctx, "attention", nornv1.Method_METHOD_ATTENTION, 0, &nornv1.AttentionRequest{}, m)
}

// History tells how many tasks were enqueued, claimed and finished, over all nodes in reach: of
// all queues for up to a day, of one for up to an hour. 0 as step is one of at most 360.
func (k Cluster) History(ctx context.Context, queue string, past, step time.Duration) (*nornv1.HistoryReply, error) {
	m := &nornv1.HistoryReply{}
	ask := &nornv1.HistoryRequest{Queue: queue, Seconds: past.Seconds(), StepSeconds: step.Seconds()}
	return m, k.c.read(ctx, "history", nornv1.Method_METHOD_HISTORY, 0, ask, m)
}

// QueueOrder says which queues [Queues.Rank] gives, and in which order.
type QueueOrder struct {
	// Contains is part of their names, in any case of letters; empty: all.
	Contains string
	// By is what they are put in order by.
	By nornv1.QueueOrder
	// Descending gives the largest first, of names the last.
	Descending bool
	// Limit is how many are given: at most 1,000; 0: 100.
	Limit int
	// Offset leaves out so many before.
	Offset int
}

// Rank reads some of all queues in an order, which a node puts them in: as few as are shown, of however many there are.
func (q Queues) Rank(ctx context.Context, o QueueOrder) (*nornv1.RankQueuesReply, error) {
	m := &nornv1.RankQueuesReply{}
	ask := &nornv1.RankQueuesRequest{Contains: o.Contains, By: o.By, Descending: o.Descending, Limit: uint32(max(o.Limit, 0)), Offset: uint32(max(o.Offset, 0))}
	return m, q.c.read(ctx, "rank queues", nornv1.Method_METHOD_RANK_QUEUES, 0, ask, m)
}
