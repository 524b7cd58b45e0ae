package peer

import (
	"crypto/x509"
	"fmt"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// Hello is what a peer that dials says of itself.
type Hello struct {
	MinVersion, MaxVersion uint32          // of the peer protocol
	Cluster                register.UUID   // of the sender
	Generation             uint64          // of the sender's register
	Revision               uint64          // of it
	From                   register.Member // who sends
	To                     register.Member // whom it means to talk to
	Boot                   uint64          // starts of its data directory; 0: not counted
	Life                   uint64          // random, of its process
	Lane                   Lane            // what the connection is for
	Addresses              []string        // where it is reached, the best first
	Build                  string          // its version
	Remote                 string          // the address it comes from

	shown  *x509.Certificate // by it; nil: none
	nonce  uint64            // of this hello
	proven bool              // asking back has shown that it is the member it names
}

// maxBuild bounds a build version in bytes.
const maxBuild = 128

// member reads a name and an incarnation.
func member(n *nornv1.PeerNode) (m register.Member, err error) {
	m.Node = n.GetName()
	if len(m.Node) > register.MaxName {
		return m, fmt.Errorf("%w: a name of %d bytes", ErrMalformed, len(m.Node))
	}
	if len(n.GetIncarnation()) != len(m.Incarnation) {
		return m, fmt.Errorf("%w: an incarnation of %d bytes", ErrMalformed, len(n.GetIncarnation()))
	}
	copy(m.Incarnation[:], n.GetIncarnation())
	return m, nil
}

// node is a member on the wire.
func node(m register.Member) *nornv1.PeerNode {
	return &nornv1.PeerNode{Name: m.Node, Incarnation: m.Incarnation[:]}
}

// uuid reads a cluster; no bytes are none.
func uuid(b []byte) (u register.UUID, err error) {
	if len(b) != 0 && len(b) != len(u) {
		return u, fmt.Errorf("%w: a cluster of %d bytes", ErrMalformed, len(b))
	}
	copy(u[:], b)
	return u, nil
}

// cluster is a cluster's ID on the wire; none is no bytes.
func cluster(u register.UUID) []byte {
	if u == (register.UUID{}) {
		return nil
	}
	return u[:]
}

// addresses checks a list of addresses by number and length; whether they can be dialled is
// found out by dialling.
func addresses(all []string) ([]string, error) {
	if len(all) > register.MaxAddresses {
		return nil, fmt.Errorf("%w: %d addresses, over %d", ErrMalformed, len(all), register.MaxAddresses)
	}
	for _, a := range all {
		if a == "" || len(a) > register.MaxAddress {
			return nil, fmt.Errorf("%w: an address of %d bytes", ErrMalformed, len(a))
		}
	}
	return all, nil
}

// build cuts a version to what logs take.
func build(s string) string { return s[:min(len(s), maxBuild)] }

// helloOf reads a hello. Errors wrap [ErrMalformed].
func helloOf(p *nornv1.PeerHello) (h Hello, err error) {
	h = Hello{
		MinVersion: p.GetMinVersion(), MaxVersion: p.GetMaxVersion(), Generation: p.GetGeneration(), Revision: p.GetRevision(),
		Boot: p.GetBoot(), Life: p.GetLife(), Lane: Lane(min(uint32(p.GetLane()), 255)), Build: build(p.GetBuild()), nonce: p.GetNonce(),
	}
	if h.Cluster, err = uuid(p.GetCluster()); err != nil {
		return h, err
	}
	if h.From, err = member(p.GetFrom()); err != nil {
		return h, err
	}
	if h.To, err = member(p.GetTo()); err != nil {
		return h, err
	}
	if h.Lane != Control && h.Lane != Bulk {
		return h, fmt.Errorf("%w: lane %d", ErrMalformed, p.GetLane())
	}
	h.Addresses, err = addresses(p.GetAddresses())
	return h, err
}

// memberOf reads what the register says of a node.
func memberOf(p *nornv1.PeerMember) (n register.Node, err error) {
	n = register.Node{Zone: p.GetZone(), Weight: p.GetWeight(), Status: register.NodeStatus(min(p.GetStatus(), 255))}
	if len(n.Zone) > register.MaxName {
		return n, fmt.Errorf("%w: a zone of %d bytes", ErrMalformed, len(n.Zone))
	}
	if n.Member, err = member(p.GetNode()); err != nil {
		return n, err
	}
	if n.Node == "" {
		return n, fmt.Errorf("%w: a node without a name", ErrMalformed)
	}
	n.Addresses, err = addresses(p.GetAddresses())
	return n, err
}

// membersOf reads what it says of some.
func membersOf(all []*nornv1.PeerMember) (nodes []register.Node, err error) {
	if len(all) > register.MaxNodes+register.MaxRemoved {
		return nil, fmt.Errorf("%w: %d members", ErrMalformed, len(all))
	}
	for _, m := range all {
		n, err := memberOf(m)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// memberProto is what the register says of a node, on the wire.
func memberProto(n register.Node) *nornv1.PeerMember {
	return &nornv1.PeerMember{
		Node: node(n.Member), Addresses: n.Addresses, Zone: n.Zone, Weight: n.Weight, Status: uint32(n.Status),
	}
}

// speak gives the version that both speak, or the refusal.
func speak(low, high uint32) (uint32, *Refusal) {
	if high < MinVersion || low > MaxVersion {
		return 0, refuse(nornv1.PeerRefusal_PEER_REFUSAL_VERSION,
			"the node that dials speaks versions %d to %d of the peer protocol, this one %d to %d: update the older of the two", low, high, MinVersion, MaxVersion)
	}
	return min(high, MaxVersion), nil
}

// errorKinds are the kinds of errors that refusals travel as.
var errorKinds = map[nornv1.PeerRefusal]nornv1.ErrorKind{
	nornv1.PeerRefusal_PEER_REFUSAL_VERSION:      nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE,
	nornv1.PeerRefusal_PEER_REFUSAL_SECRET:       nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED,
	nornv1.PeerRefusal_PEER_REFUSAL_CLUSTER:      nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE,
	nornv1.PeerRefusal_PEER_REFUSAL_OTHER_NODE:   nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE,
	nornv1.PeerRefusal_PEER_REFUSAL_SELF:         nornv1.ErrorKind_ERROR_KIND_CONFLICT,
	nornv1.PeerRefusal_PEER_REFUSAL_NOT_ADMITTED: nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED,
	nornv1.PeerRefusal_PEER_REFUSAL_OLD_LIFE:     nornv1.ErrorKind_ERROR_KIND_CONFLICT,
	nornv1.PeerRefusal_PEER_REFUSAL_SET_BACK:     nornv1.ErrorKind_ERROR_KIND_CONFLICT,
	nornv1.PeerRefusal_PEER_REFUSAL_NOT_READY:    nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
	nornv1.PeerRefusal_PEER_REFUSAL_BUSY:         nornv1.ErrorKind_ERROR_KIND_OVERLOADED,
	nornv1.PeerRefusal_PEER_REFUSAL_MALFORMED:    nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT,
}

// proto is the refusal as clients and older builds read errors.
func (r *Refusal) proto() *nornv1.Error {
	return proto.Refused(errorKinds[r.Reason], "%s", r.Message).Proto()
}
