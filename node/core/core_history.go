package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/history"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store"

	gproto "google.golang.org/protobuf/proto"
)

// remembered answers a request for what was decided when, as far as this node remembers it: the
// runner of the core does that for it. Others are asked in [router.Machine.take].
func remembered(c *Core, now clock.Time, r *message.Request, m *nornv1.HistoryRequest) (gproto.Message, *proto.Error) {
	m, err := history.Check(m, now.Wall)
	if err == nil && c.cfg.History == nil {
		err = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this node remembers nothing")
	}
	return c.round.Read(message.Read{From: r.From, Func: func(store.View, clock.Time) (gproto.Message, *proto.Error, error) {
		return c.cfg.History(m), nil, nil
	}}, err)
}
