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
