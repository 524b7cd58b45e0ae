package node

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// template gives configurations that differ in name, address and directory alone.
func template(t *testing.T, expect int, names ...string) (all []*config.Config) {
	var at []string
	for range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		at = append(at, l.Addr().String())
	}
	for i, name := range names {
		c := joinConfig(t, name)
		c.Join, c.BootstrapExpect, c.PeerListen = at, expect, at[i]
		all = append(all, c)
	}
	return all
}

// still fails if one of some nodes comes to be in a cluster in a while.
func still(t *testing.T, when string, nodes ...*Node) {
	t.Helper()
	until := time.Now().Add(1500 * time.Millisecond)
	eventually(t, when, func() bool {
		if i := slices.IndexFunc(nodes, func(n *Node) bool { return n.begun.Load() }); i >= 0 {
			t.Fatalf("%s: %s is in a cluster", when, nodes[i].self.Node)
		}
		return time.Now().After(until)
	})
}

// TestOneTemplateMakesOneCluster: three nodes that are started alike make one cluster once all
// three are there, whoever comes last; its first task has three copies; and one that loses its
// disk while others are away waits, and joins.
func TestOneTemplateMakesOneCluster(t *testing.T) {
	for late := range 3 {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			t.Parallel() // it waits most of the time
			all := template(t, 3, "a", "b", "c")
			nodes := make([]*Node, 3)
			var said lines
			begin := func(i int) { nodes[i] = start(t, all[i], Options{Logger: slog.New(slog.NewTextHandler(&said, nil))}) }
			defer func() {
				for _, n := range nodes {
					if n != nil {
						stop(t, n)
					}
				}
			}()
			var early []*Node
			for i := range nodes {
				if i != late {
					begin(i)
					early = append(early, nodes[i])
				}
			}
			still(t, "one is not there", early...)
			begin(late)
			eventually(t, "the first task is taken", func() bool {
				result := through(t, nodes[1], nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}}, &nornv1.EnqueueReply{}).Results[0]
				for _, p := range through(t, nodes[1], nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{}, &nornv1.StatusReply{}).Partitions {
					if result.Error == nil && len(p.Cohort) < 3 {
						t.Fatalf("it was taken with %v of partition %d", p.Cohort, p.Id)
					}
				}
				return result.Error == nil
			})
			for _, n := range nodes {
				full(t, n, 3)
				if n.cluster != nodes[0].cluster {
					t.Fatalf("%s is in cluster %v, a in %v", n.self.Node, n.cluster, nodes[0].cluster)
				}
			}
			if log := said.String(); strings.Contains(log, "the node itself") {
				t.Errorf("a node asks itself to be let in:\n%s", log)
			}
			was, lost, away := nodes[0].cluster, late, (late+1)%3
			for i := range nodes {
				stop(t, nodes[i])
				nodes[i] = nil
			}
			if err := os.RemoveAll(all[lost].Data); err != nil {
				t.Fatal(err)
			}
			begin(lost)
			begin((late + 2) % 3)
			still(t, "a disk is lost and another node is away", nodes[lost])
			begin(away)
			full(t, nodes[lost], 3)
			if nodes[lost].cluster != was {
				t.Errorf("it is in cluster %v, not %v", nodes[lost].cluster, was)
			}
		})
	}
}

// TestDifferentTemplatesMakeNoCluster: with other addresses, another number, or a name twice,
// nobody makes one.
func TestDifferentTemplatesMakeNoCluster(t *testing.T) {
	for name, change := range map[string]func([]*config.Config){
		"other addresses": func(all []*config.Config) { all[1].Join = append(slices.Clone(all[1].Join), "127.0.0.1:1") },
		"another number":  func(all []*config.Config) { all[1].BootstrapExpect = 0 },
		"one name":        func(all []*config.Config) { all[1].Name = all[0].Name },
		"too many":        func(all []*config.Config) { all[0].BootstrapExpect, all[1].BootstrapExpect = 3, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			all := template(t, 2, "a", "b")
			change(all)
			var nodes []*Node
			for _, c := range all {
				n := start(t, c, Options{})
				defer stop(t, n)
				nodes = append(nodes, n)
			}
			still(t, name, nodes...)
		})
	}
}

// TestAClusterBesideItsOwnIsStopped: the first node has lost its disk and is started without
// join: it began a second cluster and took tasks. A member that means it has it stop.
func TestAClusterBesideItsOwnIsStopped(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newTrioOnDisk(t)
	r.end(0)
	if err := os.RemoveAll(r.configs[0].Data); err != nil {
		t.Fatal(err)
	}
	r.begin(0)
	eventually(t, "it stops", func() bool { return r.nodes[0].Alive() != nil })
	if err := r.nodes[0].Failure(); !strings.Contains(err.Error(), "--join 127.0.0.1:") || exists(filepath.Join(r.configs[0].Data, joiningFile)) {
		t.Error(err)
	}
	n := r.nodes[0]
	r.nodes[0] = nil
	stop(t, n)
	if err := n.dir.close(); err != nil { // a node that has failed leaves its stores as they are
		t.Error(err)
	}
}
