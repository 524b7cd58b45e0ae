package node

import (
	"errors"
	"os"
	"strings"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// setAllBack puts the disks of all three back to different moments, the first one furthest,
// and starts them.
func (r *trioOnDisk) setAllBack() {
	t := r.t
	var copies []string
	for i := range r.nodes {
		for j := range r.nodes {
			r.end(j)
		}
		copies = append(copies, t.TempDir())
		if err := os.CopyFS(copies[i], os.DirFS(r.configs[i].Data)); err != nil {
			t.Fatal(err)
		}
		for j := range r.nodes {
			r.begin(j)
		}
		r.knowEachOther()
		for _, n := range r.nodes {
			full(t, n, 3)
		}
		for range r.nodes { // each writes to both others
			r.enqueue(10)
			r.nodes[0], r.nodes[1], r.nodes[2] = r.nodes[1], r.nodes[2], r.nodes[0]
		}
	}
	for i := range r.nodes {
		r.end(i)
	}
	for i, c := range r.configs {
		if err := errors.Join(os.RemoveAll(c.Data), os.CopyFS(c.Data, os.DirFS(copies[i]))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range r.nodes {
		r.begin(i)
	}
}

// knowEachOther waits until each has told what it knows of the others' disks.
func (r *trioOnDisk) knowEachOther() {
	for _, n := range r.nodes {
		eventually(r.t, "the others have told what they know", func() bool {
			told := 0
			for _, s := range r.status(n).Nodes {
				if s.ClockErrorMs > 0 {
					told++
				}
			}
			return told == 2
		})
	}
}

func (r *trioOnDisk) status(n *Node) *nornv1.StatusReply {
	return through(r.t, n, nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{}, &nornv1.StatusReply{})
}

// TestAllDisksSetBackIsSaid: with the disks of two of three behind nothing can be led, and no
// node says that it is ready, takes enqueues or hands out claims; all name those two.
func TestAllDisksSetBackIsSaid(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	r.setAllBack()
	for _, n := range r.nodes {
		eventually(t, n.self.Node+" says who has forgotten, and that nothing works", func() bool {
			s, forgot := r.status(n), ""
			for _, o := range s.Nodes {
				if o.Forgot != "" {
					forgot += o.Name
				}
			}
			for _, p := range s.Partitions {
				if p.EnqueueAvailable || p.ClaimAvailable || p.Copies > 1 {
					return false
				}
			}
			enqueue, claim := n.Ready()
			a := n.available.Load()
			return forgot == "n1n2" && !enqueue && !claim && a.Short == len(s.Partitions) && a.Unled == len(s.Partitions)
		})
	}
}

// TestANodeThatForgotIsForcedLast: the register is not begun anew on a disk that has lost
// something unless the operator says that all have. Then the node hands out what it has, as
// another incarnation, as soon as the rest is given up, and the others join it with theirs.
func TestANodeThatForgotIsForcedLast(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	r.setAllBack()
	eventually(t, "the first one knows", func() bool { return nodeNamed(r.status(r.nodes[0]), "n1").Forgot != "" })
	for i := range r.nodes {
		r.end(i)
	}
	c := r.configs[0]
	c.ForceNewRegister = r.nodeCluster(t) + ":1"
	n, err := Start(c, Options{})
	if err == nil {
		stop(t, n)
	}
	if !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), "norn_forgot") {
		t.Fatalf("forced on a disk that is behind: %v", err)
	}
	words := err.Error()[strings.LastIndex(err.Error()[:strings.LastIndex(err.Error(), " ")], " "):]
	c.ForceNewRegister = strings.Fields(words)[0]
	r.begin(0)
	old := r.nodes[0].self
	reply := through(t, r.nodes[0], nornv1.Method_METHOD_CLUSTER, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_AcceptLoss{AcceptLoss: &nornv1.AcceptLoss{}}}, &nornv1.ClusterReply{})
	if !reply.Changed || !strings.Contains(strings.Join(reply.Notes, " "), "another incarnation") {
		t.Fatal(reply)
	}
	eventually(t, "it starts again", func() bool { return r.nodes[0].Alive() != nil })
	if err := r.nodes[0].Failure(); !errors.Is(err, ErrStartAgain) {
		t.Fatal(err)
	}
	for range 2 { // told to be forced again, which has been done
		r.end(0)
		r.begin(0)
		full(t, r.nodes[0], 1)
	}
	if r.nodes[0].self == old {
		t.Fatal("it is the same incarnation")
	}
	count := func() uint64 {
		return through(t, r.nodes[0], nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}, &nornv1.CountReply{}).Total.Total
	}
	r.enqueueOne()
	for i := 1; i < 3; i++ {
		r.configs[i].Join = []string{r.nodes[0].PeerAddr().String()}
		r.begin(i)
		eventually(t, "it renounces its life", func() bool { return r.nodes[i].Alive() != nil })
		r.end(i)
		r.begin(i)
	}
	eventually(t, "all that is on the three disks is there", func() bool { return count() == 61 })
	for _, n := range r.nodes {
		full(t, n, 3)
		eventually(t, n.self.Node+" is ready", func() bool { enqueue, claim := n.Ready(); return enqueue && claim })
	}
}

// nodeCluster reads the cluster's ID.
func (r *trioOnDisk) nodeCluster(t *testing.T) string {
	b, err := os.ReadFile(r.configs[0].Data + "/" + identityFile)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), `"cluster_id": "`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func (r *trioOnDisk) enqueueOne() {
	reply := through(r.t, r.nodes[0], nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}}, &nornv1.EnqueueReply{})
	if reply.Results[0].Error != nil {
		r.t.Fatal(reply)
	}
}

func nodeNamed(s *nornv1.StatusReply, name string) *nornv1.NodeStatus {
	for _, n := range s.Nodes {
		if n.Name == name {
			return n
		}
	}
	return &nornv1.NodeStatus{}
}
