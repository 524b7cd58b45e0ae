package client

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestTwoClustersAtOnce: whoever answers first is the cluster. Nodes that are asked at the
// same time cannot know of each other, and so the client has to look.
func TestTwoClustersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked sync.WaitGroup
		asked.Add(2)
		of := func(cluster string) *fakenode.Node {
			return fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
				if r.Method != nornv1.Method_METHOD_HELLO {
					return fakenode.Answer{}
				}
				asked.Done()
				asked.Wait()
				return fakenode.Answer{Message: &nornv1.HelloReply{
					Version: proto.MaxVersion, ClusterId: cluster, Limits: &nornv1.Limits{MaxInFlight: 10}, Placement: fakenode.Placement(),
				}}
			})
		}
		c := openAll(t, map[string]*fakenode.Node{"a:1": of("one"), "b:1": of("two")}, []string{"a:1", "b:1"})
		errs := make(chan error, 2)
		for nth := range 2 {
			go func() {
				_, _, err := c.reach(t.Context(), &race{at: nth, left: 1}, 0)
				errs <- &Error{Err: err}
			}()
		}
		if err := errors.Join(<-errs, <-errs); !errors.Is(err, ErrIncompatible) {
			t.Errorf("connected to both of two clusters: %v", err)
		}
	})
}
