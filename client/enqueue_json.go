package client

import (
	"context"
	"encoding/json"
	"fmt"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// EnqueueJSON adds a task whose payload is v in JSON, as worker.JSON and worker.HandleJSON
// read it; what t has as its payload does not count. A v that has no JSON is an ErrInvalid,
// and nothing is sent. Otherwise it is [Client.Enqueue].
func EnqueueJSON[T any](ctx context.Context, c *Client, t Task, v T, opts ...WriteOption) (*nornv1.Receipt, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{Op: "enqueue", Err: fmt.Errorf("%w: the payload has no JSON: %w", ErrInvalid, err)}
	}
	t.Payload = b
	return c.Enqueue(ctx, t, opts...)
}
