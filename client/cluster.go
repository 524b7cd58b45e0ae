package client

import (
	"context"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Cluster looks after the members of a cluster: see [Client.Cluster].
type Cluster struct{ c *Client }

// Cluster gives what a client can do with the nodes of a cluster. What changes
// something may be repeated: it says then that nothing was changed. Nodes are
// named by their names, or by their incarnations in hexadecimal where several
// have the same name.
func (c *Client) Cluster() Cluster { return Cluster{c} }

// Status asks a node about itself and its cluster.
func (c *Client) Status(ctx context.Context) (*nornv1.StatusReply, error) {
	return c.Cluster().Status(ctx, StatusOptions{})
}

// StatusOptions are what [Cluster.Status] is asked for.
type StatusOptions struct {
	// Removed has it list also the removed nodes that do not matter any more.
	Removed bool
}

// Status asks a node about itself and its cluster.
func (k Cluster) Status(ctx context.Context, o StatusOptions) (*nornv1.StatusReply, error) {
	m := &nornv1.StatusReply{}
	if err := k.c.read(ctx, "status", nornv1.Method_METHOD_STATUS, 0, &nornv1.StatusRequest{Removed: o.Removed}, m); err != nil {
		return nil, err
	}
	return m, nil
}
