package peer

import (
	"fmt"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func wireWork(m *message.Work) *nornv1.PeerWork {
	out := &nornv1.PeerWork{}
	for i := range m.Items {
		x := &m.Items[i]
		w := &nornv1.PeerWorkItem{Kind: nornv1.PeerWorkKind(x.Kind), Instance: x.Instance[:], Association: x.Association}
		for _, c := range x.Claims {
			w.Claims = append(w.Claims, &nornv1.PeerWorkClaim{Task: c.Task.Bytes(), Token: c.Token, Lease: int64(c.Lease), Cause: uint32(c.Cause)})
		}
		out.Items = append(out.Items, w)
	}
	return out
}

func decodeWork(b []byte) (*message.Work, error) {
	w, err := parse(b, &nornv1.PeerWork{})
	if err != nil {
		return nil, err
	}
	m := &message.Work{}
	for _, x := range w.GetItems() {
		item := message.WorkItem{Kind: message.WorkKind(min(max(x.GetKind(), 0), 255)), Association: x.GetAssociation()}
		if err := fill(item.Instance[:], x.GetInstance()); err != nil {
			return nil, err
		}
		for _, c := range x.GetClaims() {
			if len(c.GetTask()) != id.Size || c.GetLease() < 0 || c.GetCause() > 255 {
				return nil, fmt.Errorf("%w: a claim of a worker", ErrMalformed)
			}
			item.Claims = append(item.Claims, message.WorkClaim{Task: id.ID(c.GetTask()), Token: c.GetToken(), Lease: time.Duration(c.GetLease()), Cause: uint8(c.GetCause())})
		}
		m.Items = append(m.Items, item)
	}
	return m, nil
}
