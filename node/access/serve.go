package access

import (
	"context"
	"math"
	"time"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Learn takes over what a state of the register says. States may come out of order.
func (d *Desk) Learn(s *register.State) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.book.Load()
	if s.Generation < b.generation || s.Generation == b.generation && s.Revision <= b.revision {
		return
	}
	if s.Generation == b.generation && s.AccessAt == b.at {
		return // nothing of it has changed
	}
	d.book.Store(b.read(s))
	d.ends = 0
	d.stir()
}

// Do answers what is asked about rights, and changes them.
//
// It is not carried out by the loop of the node: it reads and writes the register, which may
// take seconds.
func (d *Desk) Do(ctx context.Context, c *Caller, request gproto.Message) (gproto.Message, *proto.Error) {
	m := nornv1.Method_METHOD_WHO_AM_I
	access, is := request.(*nornv1.AccessRequest)
	if is {
		m = nornv1.Method_METHOD_ACCESS
	}
	if _, err := d.Check(c, m, request); err != nil {
		return nil, err
	}
	p, err := d.current(c)
	switch {
	case err != nil:
		return nil, err
	case d == nil:
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this server keeps no roles and tokens")
	case !is:
		return d.who(p), nil
	}
	switch a := access.GetAction().(type) {
	case *nornv1.AccessRequest_List:
		return d.book.Load().list(), nil
	case *nornv1.AccessRequest_Check:
		return d.mayThey(p, a.Check)
	case *nornv1.AccessRequest_Audit:
		return d.o.Audit.last(a.Audit), nil
	}
	return d.change(ctx, c, access)
}

// who shows a principal.
func (d *Desk) who(p *guard.Principal) *nornv1.WhoAmIReply {
	r := &nornv1.WhoAmIReply{Name: p.Name, Id: p.ID, Roles: p.Roles, Proof: p.Proof, Node: d.o.Node, Revision: d.book.Load().at, Allow: p.Rules(), Tenant: p.Tenant, Prefix: p.Prefix()}
	if p.Expires != math.MaxInt64 {
		r.Expires = timestamppb.New(time.Unix(0, p.Expires))
	}
	return r
}

// mayThey tells whether somebody may do something.
func (d *Desk) mayThey(p *guard.Principal, m *nornv1.CheckAccess) (gproto.Message, *proto.Error) {
	verb, err := guard.ParseVerbs(m.GetVerb())
	if err != nil {
		return nil, proto.Invalid("%v", err)
	}
	if m.GetId() != "" {
		var found []*token
		for _, t := range d.book.Load().tokens { // Any order: there is to be one.
			if t.id == m.GetId() || t.stored.GetName() == m.GetId() {
				found = append(found, t)
			}
		}
		if len(found) != 1 {
			return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "%d tokens have the ID or name %.80q; norn access token list has all", len(found), m.GetId())
		}
		p = found[0].principal
	}
	reply := &nornv1.AccessReply{Revision: d.book.Load().at, Allowed: true}
	if denied := p.Judge(verb, m.GetQueue()); denied != nil {
		reply.Allowed, reply.Reason = false, denied.Message
	}
	return reply, nil
}
