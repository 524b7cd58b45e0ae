package client

import (
	"context"
	"math"

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

// ChangeOptions are how something is done about the members of a cluster.
type ChangeOptions struct {
	// DryRun says what would be done, and does nothing.
	DryRun bool
	// Force removes also a node that is in reach, or without which partitions have
	// too few copies to go on.
	Force bool
}

// Leave has a node hand over what it has and then leave the cluster. It returns
// when that is decided; the node must run until it is removed, see
// [Cluster.Status]. ErrConflict: it is the last one, or cannot be reached.
func (k Cluster) Leave(ctx context.Context, node string, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "leave", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_Leave{Leave: &nornv1.LeaveNode{Node: node}}})
}

// Stay has a node that is leaving stay. ErrConflict: it is gone already.
func (k Cluster) Stay(ctx context.Context, node string, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "stay", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_Leave{Leave: &nornv1.LeaveNode{Node: node, Stay: true}}})
}

// Remove gives up a node that is dead: others make new copies of what it had.
// ErrConflict: it is the last one, or takes Force.
func (k Cluster) Remove(ctx context.Context, node string, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "remove", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_Remove{
		Remove: &nornv1.RemoveNode{Node: node, Force: o.Force},
	}})
}

// Replace gives up a dead node and puts a member into its place. ErrConflict: the
// one is in reach, or the other is not.
func (k Cluster) Replace(ctx context.Context, old, fresh string, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "replace", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_Replace{
		Replace: &nornv1.ReplaceNode{Old: old, New: fresh, Force: o.Force},
	}})
}

// Rebalance works out anew who shall keep what. With fresh that is from nothing,
// so that nearly everything moves; else as little as possible.
func (k Cluster) Rebalance(ctx context.Context, fresh bool, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "rebalance", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_Rebalance{
		Rebalance: &nornv1.Rebalance{Fresh: fresh},
	}})
}

// SetReplicas sets how many copies of each partition there are to be, 1 to 9: they are
// made, or handed over and deleted, while everything goes on. It returns when that is
// decided; how far it is, a status shows. With fewer nodes there is one copy on each.
// ErrInvalid: there may not be so many.
func (k Cluster) SetReplicas(ctx context.Context, n int, o ChangeOptions) (*nornv1.ClusterReply, error) {
	if n < 0 || n > math.MaxUint32 {
		n = 0 // as wrong, and it fits
	}
	return k.change(ctx, "set replicas", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_SetReplicas{
		SetReplicas: &nornv1.SetReplicas{Replicas: uint32(n)},
	}})
}

// Repair has the replicas of some partitions, or of all, compared at once
// instead of in their turn. It returns when that has begun: how far it is, a
// status shows.
func (k Cluster) Repair(ctx context.Context, partitions []uint32, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "repair", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_Repair{
		Repair: &nornv1.Repair{Partitions: partitions},
	}})
}

// AcceptLoss gives up what removed nodes alone may have: some, or without names
// all that partitions are stuck without. Those partitions go on with what is
// left; acknowledged tasks and updates may be lost.
func (k Cluster) AcceptLoss(ctx context.Context, nodes []string, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "accept loss", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_AcceptLoss{
		AcceptLoss: &nornv1.AcceptLoss{Nodes: nodes},
	}})
}

// Destroy has every node stop and delete all data of the cluster, for ever. The
// ID is that of the cluster, see [Cluster.Status]: no other one is destroyed.
// ErrConflict: some node is not in reach and would keep its data; with Force it
// does.
func (k Cluster) Destroy(ctx context.Context, clusterID string, o ChangeOptions) (*nornv1.ClusterReply, error) {
	return k.change(ctx, "destroy", &nornv1.ClusterRequest{DryRun: o.DryRun, Action: &nornv1.ClusterRequest_Destroy{
		Destroy: &nornv1.DestroyCluster{ClusterId: clusterID, Force: o.Force},
	}})
}

// Export reads the register (settings of queues, schedules, members) in the form
// of its snapshots: what `norn backup create` writes.
func (k Cluster) Export(ctx context.Context) ([]byte, error) {
	m := &nornv1.ClusterReply{}
	ask := &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Export{Export: &nornv1.ExportRegister{}}}
	if err := k.c.read(ctx, "export", nornv1.Method_METHOD_CLUSTER, 0, ask, m); err != nil {
		return nil, err
	}
	return m.GetRegister(), nil
}

func (k Cluster) change(ctx context.Context, op string, ask *nornv1.ClusterRequest) (*nornv1.ClusterReply, error) {
	m := &nornv1.ClusterReply{}
	err := k.c.do(ctx, &request{
		op: op, method: uint16(nornv1.Method_METHOD_CLUSTER), body: message{m: ask}, write: !ask.GetDryRun(),
		decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, m) },
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}
