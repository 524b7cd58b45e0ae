package peer

import (
	"errors"
	"fmt"
	"strings"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

var (
	// ErrVersion is returned when two nodes have no version of the peer protocol
	// in common.
	ErrVersion = errors.New("peer: no common protocol version")
	// ErrSecret is returned when the secret is missing or wrong.
	ErrSecret = errors.New("peer: wrong secret")
	// ErrOtherCluster is returned when the nodes belong to different clusters.
	ErrOtherCluster = errors.New("peer: another cluster")
	// ErrOtherNode is returned when another node, or another incarnation, answers
	// at an address.
	ErrOtherNode = errors.New("peer: another node at this address")
	// ErrSelf is returned when a node meets its own incarnation: its own address,
	// or a copy of its data directory.
	ErrSelf = errors.New("peer: the same incarnation at both ends")
	// ErrNotAdmitted is returned when a node was removed, or is not known.
	ErrNotAdmitted = errors.New("peer: not admitted")
	// ErrOldLife is returned when a node was started again since, or twice.
	ErrOldLife = errors.New("peer: an older start of the same data directory")
	// ErrSetBack is returned when a later start of the same data directory was
	// seen, which does not run any more: the disk was set back.
	ErrSetBack = errors.New("peer: the data directory was set back")
	// ErrNotReady is returned when the other node is not a member of a cluster yet.
	ErrNotReady = errors.New("peer: not a member of a cluster yet")
	// ErrBusy is returned when the other node has too much to do: try again.
	ErrBusy = errors.New("peer: busy")
	// ErrNoAddress is returned when there is no address to dial.
	ErrNoAddress = errors.New("peer: no address known")
	// ErrClosed is returned after [Network.Close].
	ErrClosed = errors.New("peer: network closed")
)

// Refusal is returned when one of two nodes does not want to talk to the other.
// It unwraps to the error of its reason.
type Refusal struct {
	Reason  nornv1.PeerRefusal
	Message string          // one line: what is wrong and what to do
	By      register.Member // who refuses; zero: this node

	login string // what of [logins] it is; "": none
}

// Error gives who refuses and why.
func (r *Refusal) Error() string {
	if r.By == (register.Member{}) {
		return "refused: " + r.Message
	}
	return fmt.Sprintf("refused by node %q: %s", r.By.Node, r.Message)
}

// Unwrap gives the sentinel of the reason.
func (r *Refusal) Unwrap() error {
	switch r.Reason {
	case nornv1.PeerRefusal_PEER_REFUSAL_VERSION:
		return ErrVersion
	case nornv1.PeerRefusal_PEER_REFUSAL_SECRET:
		return ErrSecret
	case nornv1.PeerRefusal_PEER_REFUSAL_CLUSTER:
		return ErrOtherCluster
	case nornv1.PeerRefusal_PEER_REFUSAL_OTHER_NODE:
		return ErrOtherNode
	case nornv1.PeerRefusal_PEER_REFUSAL_SELF:
		return ErrSelf
	case nornv1.PeerRefusal_PEER_REFUSAL_OLD_LIFE:
		return ErrOldLife
	case nornv1.PeerRefusal_PEER_REFUSAL_SET_BACK:
		return ErrSetBack
	case nornv1.PeerRefusal_PEER_REFUSAL_NOT_READY:
		return ErrNotReady
	case nornv1.PeerRefusal_PEER_REFUSAL_BUSY:
		return ErrBusy
	case nornv1.PeerRefusal_PEER_REFUSAL_MALFORMED:
		return ErrMalformed
	}
	return ErrNotAdmitted
}

func refuse(reason nornv1.PeerRefusal, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// maxText bounds the text of an error of another node, in bytes.
const maxText = 1 << 10

// refusalOf is a refusal that came; nil when there is none.
func refusalOf(reason nornv1.PeerRefusal, e *nornv1.Error, by *nornv1.PeerNode) error {
	if reason == nornv1.PeerRefusal_PEER_REFUSAL_UNSPECIFIED {
		return nil
	}
	r := &Refusal{Reason: reason, Message: text(e.GetMessage())}
	r.By, _ = member(by) // who it was is only for people
	return r
}

// text cuts between characters: half of one would be refused where the text is passed on.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }
