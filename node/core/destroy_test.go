package core

import (
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/core/operator"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func destroy(id string, force bool) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Destroy{Destroy: &nornv1.DestroyCluster{ClusterId: id, Force: force}}}
}

// TestDestroy: only the cluster that is named, only with everybody there unless
// by force; from then on no node takes anything.
func TestDestroy(t *testing.T) {
	r := newAdmins(t, 3)
	id := r.register.Cluster().ID.String()
	r.refuses(0, isInvalid, "this is cluster "+id, destroy("", true))
	r.refuses(0, isInvalid, "not \"other\"", destroy("other", true))
	r.kill(2)
	r.tell()
	r.refuses(0, isConflict, "n3 is not in reach", destroy(id, false))
	would := r.does(0, dry(destroy(id, true)))
	if !slices.Equal(would.Nodes, []string{"n1", "n2"}) || !strings.Contains(would.Notes[0], "n3 is not in reach and keeps its data") || operator.Destroyed(r.state()) {
		t.Fatalf("would: %v", would)
	}
	r.open(2)
	r.tell()
	if did := r.does(1, destroy(id, false)); len(did.Nodes) != 3 || !operator.Destroyed(r.state()) {
		t.Fatalf("did: %v", did)
	}
	for i := range r.peers {
		from := r.enqueue(i, r.ids.Next(r.now.Wall), nil)
		if reply := r.peers[i].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
			t.Errorf("node %d takes something: %v", i+1, reply)
		}
	}
	r.kill(0)
	r.open(0)
	if reply := r.peers[0].replies[r.enqueue(0, r.ids.Next(r.now.Wall), nil)]; reply.Err == nil {
		t.Error("after a restart it takes something")
	}
}
