package client

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// verifyNode answers for partitions; judge says how a partition looks at a look.
func verifyNode(t *testing.T, judge func(id uint32, look int) *nornv1.VerifiedPartition) (*fakenode.Node, func() int) {
	looks := make(map[uint32]int)
	asked := 0
	n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		m, ok := r.Message.(*nornv1.VerifyRequest)
		if !ok {
			return fakenode.Answer{}
		}
		asked++
		reply := &nornv1.VerifyReply{}
		for _, p := range m.GetPartitions() {
			v := judge(p, looks[p])
			v.Id = p
			reply.Partitions = append(reply.Partitions, v)
			looks[p]++
		}
		return fakenode.Answer{Message: reply}
	})
	return n, func() int { return asked }
}

// TestVerifyLooksAgain: a difference that passes is none, one that stays is one,
// and whoever is out of reach is not waited for long.
func TestVerifyLooksAgain(t *testing.T) {
	for name, c := range map[string]struct {
		judge             func(id uint32, look int) *nornv1.VerifiedPartition
		wait              time.Duration
		differing, silent int
		least, most       time.Duration
	}{
		"equal": {func(uint32, int) *nornv1.VerifiedPartition { return &nornv1.VerifiedPartition{} }, time.Minute, 0, 0, 0, time.Second},
		"passing": {func(id uint32, look int) *nornv1.VerifiedPartition {
			return &nornv1.VerifiedPartition{Differs: id == 3 && look < 4}
		}, time.Minute, 0, 0, 2 * time.Second, 3 * time.Second},
		"staying":  {func(id uint32, _ int) *nornv1.VerifiedPartition { return &nornv1.VerifiedPartition{Differs: id == 3} }, 10 * time.Second, 1, 0, 9 * time.Second, 11 * time.Second},
		"one look": {func(id uint32, _ int) *nornv1.VerifiedPartition { return &nornv1.VerifiedPartition{Differs: id < 2} }, 0, 2, 0, 0, time.Second},
		"silent": {func(id uint32, _ int) *nornv1.VerifiedPartition {
			return &nornv1.VerifiedPartition{Unreachable: id > 0}
		}, time.Minute, 0, 4, 2 * time.Second, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, _ := verifyNode(t, c.judge)
				began := time.Now()
				v, err := open(t, n).Cluster().Verify(t.Context(), VerifyOptions{Partitions: []uint32{4, 3, 2, 1, 0, 3}, Wait: c.wait})
				if err != nil || len(v.Partitions) != 5 || v.Partitions[4].GetId() != 4 || v.Differing != c.differing || v.Unreachable != c.silent {
					t.Fatalf("%+v, %v", v, err)
				}
				if took := time.Since(began); took < c.least || took > c.most {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestVerifyAsksInPages: bounded, and only about what is still open.
func TestVerifyAsksInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, asked := verifyNode(t, func(id uint32, look int) *nornv1.VerifiedPartition {
			return &nornv1.VerifiedPartition{Differs: id >= 180 && look == 0}
		})
		ids := make([]uint32, 200)
		for i := range ids {
			ids[i] = uint32(i)
		}
		last := 0
		v, err := open(t, n).Cluster().Verify(t.Context(), VerifyOptions{Partitions: ids, Wait: time.Minute, Progress: func(done, total int) {
			if done < last || total != 200 {
				t.Errorf("%d of %d after %d", done, total, last)
			}
			last = done
		}})
		if err != nil || v.Differing != 0 || len(v.Partitions) != 200 || last != 200 {
			t.Fatalf("%+v, %v, %d", v, err, last)
		}
		if got := asked(); got != 4+2 {
			t.Errorf("%d requests", got)
		}
	})
}

// TestClusterChanges: each asks for what it says, and a refusal is what it is.
func TestClusterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			switch m := r.Message.(type) {
			case *nornv1.StatusRequest:
				return fakenode.Answer{Message: &nornv1.StatusReply{Node: "n1", Replicas: uint32(len(m.String()))}}
			case *nornv1.ClusterRequest:
				if m.GetLeave().GetNode() == "last" {
					return fakenode.Answer{Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "last")}
				}
				return fakenode.Answer{Message: &nornv1.ClusterReply{Changed: true, Notes: []string{protojson.Format(m)}}}
			}
			return fakenode.Answer{}
		})
		k, ctx := open(t, n).Cluster(), t.Context()
		dry, force := ChangeOptions{DryRun: true}, ChangeOptions{Force: true}
		for _, c := range []struct {
			ask  func() (*nornv1.ClusterReply, error)
			want *nornv1.ClusterRequest
		}{
			{func() (*nornv1.ClusterReply, error) { return k.Leave(ctx, "a", dry) }, &nornv1.ClusterRequest{DryRun: true, Action: &nornv1.ClusterRequest_Leave{Leave: &nornv1.LeaveNode{Node: "a"}}}},
			{func() (*nornv1.ClusterReply, error) { return k.Stay(ctx, "a", force) }, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Leave{Leave: &nornv1.LeaveNode{Node: "a", Stay: true}}}},
			{func() (*nornv1.ClusterReply, error) { return k.Remove(ctx, "a", force) }, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Remove{Remove: &nornv1.RemoveNode{Node: "a", Force: true}}}},
			{func() (*nornv1.ClusterReply, error) { return k.Replace(ctx, "a", "b", dry) }, &nornv1.ClusterRequest{DryRun: true, Action: &nornv1.ClusterRequest_Replace{Replace: &nornv1.ReplaceNode{Old: "a", New: "b"}}}},
			{func() (*nornv1.ClusterReply, error) { return k.Rebalance(ctx, true, dry) }, &nornv1.ClusterRequest{DryRun: true, Action: &nornv1.ClusterRequest_Rebalance{Rebalance: &nornv1.Rebalance{Fresh: true}}}},
			{func() (*nornv1.ClusterReply, error) { return k.SetReplicas(ctx, 5, dry) }, &nornv1.ClusterRequest{DryRun: true, Action: &nornv1.ClusterRequest_SetReplicas{SetReplicas: &nornv1.SetReplicas{Replicas: 5}}}},
			{func() (*nornv1.ClusterReply, error) { return k.SetReplicas(ctx, -1, ChangeOptions{}) }, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_SetReplicas{SetReplicas: &nornv1.SetReplicas{}}}},
			{func() (*nornv1.ClusterReply, error) { return k.Repair(ctx, []uint32{4}, ChangeOptions{}) }, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Repair{Repair: &nornv1.Repair{Partitions: []uint32{4}}}}},
			{func() (*nornv1.ClusterReply, error) { return k.Destroy(ctx, "id", force) }, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Destroy{Destroy: &nornv1.DestroyCluster{ClusterId: "id", Force: true}}}},
			{func() (*nornv1.ClusterReply, error) { return k.AcceptLoss(ctx, []string{"a"}, dry) }, &nornv1.ClusterRequest{DryRun: true, Action: &nornv1.ClusterRequest_AcceptLoss{AcceptLoss: &nornv1.AcceptLoss{Nodes: []string{"a"}}}}},
		} {
			if got, err := c.ask(); err != nil || !got.GetChanged() || got.GetNotes()[0] != protojson.Format(c.want) {
				t.Errorf("%v: %v, %v", c.want, got, err)
			}
		}
		_, err := k.Leave(ctx, "last", ChangeOptions{})
		wantIs(t, err, ErrConflict)
		if s, err := k.Status(ctx, StatusOptions{Removed: true}); err != nil || s.GetReplicas() == 0 {
			t.Errorf("all nodes: %v, %v", s, err)
		}
		if s, err := open(t, n).Status(ctx); err != nil || s.GetReplicas() != 0 || s.GetNode() != "n1" {
			t.Errorf("status: %v, %v", s, err)
		}
	})
}
