package node

import (
	"errors"
	"testing"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestEveryMethodIsJudged: each method that a client can send has a verb, and without it is
// refused on both ways into a node, before anything is admitted.
func TestEveryMethodIsJudged(t *testing.T) {
	nobody := guard.NewPrincipal("nobody", guard.ByNothing, nil, nil, "")
	n := start(t, testConfig(t), Options{Access: access.New(access.Config{Anonymous: "metrics"})})
	defer stop(t, n)
	c, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for number := range nornv1.Method_name {
		m := nornv1.Method(number)
		of := carried(m)
		if of == nil {
			continue
		}
		body := of.Request()
		if v, ok := guard.Verb(m); !ok || v == guard.None {
			t.Errorf("%s needs no verb", m)
		}
		var e *proto.Error
		if err := c.call(m, body, &nornv1.PingReply{}); !errors.As(err, &e) || e.Kind != nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED {
			t.Errorf("%s over the wire: %v", m, err)
		}
		if a := n.Call(t.Context(), &access.Caller{Principal: nobody}, m, body); a.Err == nil || m != nornv1.Method_METHOD_SESSION && a.Err.Kind != nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED {
			t.Errorf("%s called: %v", m, a.Err)
		}
		judged++
	}
	if judged < 25 || n.inbox.Bytes.Load() != 0 {
		t.Errorf("%d methods were judged, and %d bytes are admitted", judged, n.inbox.Bytes.Load())
	}
}
