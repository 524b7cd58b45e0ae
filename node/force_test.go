package node

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestForceNewRegister: with two of three voters gone for good the third goes
// on alone, with the tasks it has, when it is told so in the right words; told
// twice it does nothing.
func TestForceNewRegister(t *testing.T) {
	t.Parallel() // it waits most of the time
	c := joinConfig(t, "n1")
	first := start(t, c, Options{})
	other := start(t, joinConfig(t, "n2", first), Options{})
	third := start(t, joinConfig(t, "n3", first), Options{})
	full(t, third, 3)
	all := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}
	through(t, other, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}, Durability: all}, &nornv1.EnqueueReply{})
	for _, n := range []*Node{other, third, first} {
		stop(t, n)
	}
	c.ForceNewRegister = "yes"
	_, err := Start(c, Options{})
	if !errors.Is(err, ErrDirectory) {
		t.Fatalf("forced without the right words: %v", err)
	}
	words := err.Error()[strings.LastIndex(err.Error(), " ")+1:]
	c.ForceNewRegister = words
	for range 2 {
		n := start(t, c, Options{})
		// What only the others had is given up, which takes another word.
		through(t, n, nornv1.Method_METHOD_CLUSTER, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_AcceptLoss{AcceptLoss: &nornv1.AcceptLoss{}}}, &nornv1.ClusterReply{})
		full(t, n, 1)
		if got := through(t, n, nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}, &nornv1.CountReply{}).Total.Total; got != 1 {
			t.Errorf("%d tasks", got)
		}
		if g := n.members.generation(); g != 1 {
			t.Errorf("generation %d", g)
		}
		stop(t, n)
	}
}

// TestForceNeedsARegister: in a directory that has none, as one with a mistake in its path,
// forcing makes neither a new cluster nor a joiner, and names no words that would begin one.
func TestForceNeedsARegister(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"alone":   func(*config.Config) {},
		"joins":   func(c *config.Config) { c.Join = []string{"127.0.0.1:1"} },
		"restore": func(c *config.Config) { c.RestoreFrom = t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			c.ForceNewRegister = "8b26c9fe-80e7-4e4e-949b-8f97f1eb7118:1"
			change(c)
			n, err := Start(c, Options{})
			if err == nil {
				stop(t, n)
			}
			if !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), "has no register") {
				t.Errorf("%v", err)
			}
			for _, file := range []string{identityFile, joiningFile, formattingFile, factsDir} {
				if exists(filepath.Join(c.Data, file)) {
					t.Errorf("%s was made", file)
				}
			}
		})
	}
}
