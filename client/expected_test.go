package client

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	ours   = "01234567-89ab-4cde-8f01-23456789abcd"
	theirs = "fedcba98-89ab-4cde-8f01-23456789abcd"
)

// house is a node of a cluster that notes the tokens that it is shown. One that is ignorant
// answers everything, whatever is asked for.
func house(t *testing.T, cluster string, ignorant bool, tokens *sync.Map) *fakenode.Node {
	return fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		switch m := r.Message.(type) {
		case *nornv1.Hello:
			if m.GetAuthToken() != "" {
				tokens.Store(cluster, m.GetAuthToken())
			}
			switch {
			case !ignorant && m.GetClusterId() != cluster:
				return fakenode.Answer{Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, "another cluster")}
			case !ignorant && m.GetOnlyCluster():
				return fakenode.Answer{Message: &nornv1.HelloReply{Version: proto.MaxVersion}}
			}
			return fakenode.Answer{Message: &nornv1.HelloReply{Version: proto.MaxVersion, ClusterId: cluster, Limits: &nornv1.Limits{MaxInFlight: 9}, Placement: fakenode.Placement()}}
		case *nornv1.GetRequest:
			return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{}}}
		}
		return fakenode.Answer{}
	})
}

// TestAnotherClusterIsRefused before the token is sent there; the next address is tried.
func TestAnotherClusterIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		clusters []string
		ignorant bool
		want     error
	}{
		"ours":                  {[]string{ours}, false, nil},
		"theirs":                {[]string{theirs}, false, ErrIncompatible},
		"theirs, then ours":     {[]string{theirs, ours}, false, nil},
		"theirs, and says yes":  {[]string{theirs}, true, ErrIncompatible},
		"theirs at all of them": {[]string{theirs, theirs}, false, ErrIncompatible},
	} {
		synctest.Test(t, func(t *testing.T) {
			var tokens sync.Map
			nodes, addrs := map[string]*fakenode.Node{}, []string{}
			for i, cluster := range tt.clusters {
				addr := string(rune('a'+i)) + ":1"
				nodes[addr], addrs = house(t, cluster, tt.ignorant, &tokens), append(addrs, addr)
			}
			c := openAll(t, nodes, addrs, WithAuthToken("secret"), WithClusterID("01234567-89AB-4CDE-8F01-23456789ABCD"))
			c.preferred.Store(0)
			_, err := c.Get(t.Context(), id.ID{1})
			if tt.want == nil && err != nil {
				t.Errorf("%s: %v", name, err)
			} else if tt.want != nil {
				wantIs(t, err, tt.want)
			}
			if _, told := tokens.Load(theirs); told && !tt.ignorant {
				t.Errorf("%s: the other cluster was sent the token", name)
			}
			if _, told := tokens.Load(ours); told != (tt.want == nil) {
				t.Errorf("%s: ours was sent the token: %v", name, told)
			}
		})
	}
	for _, bad := range []string{"x", "01234567-89ab-4cde-8f01-23456789abcg", "0123456789ab4cde8f0123456789abcd", ours + "\n"} {
		_, err := Dial(context.Background(), []string{"a"}, WithClusterID(bad))
		wantIs(t, err, ErrClusterID)
		wantIs(t, err, ErrInvalid)
	}
}
