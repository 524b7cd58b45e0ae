package message

import (
	"time"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// Answered is a reply to an internal origin that was given outside of the
// machine, by a read.
type Answered struct{ Reply Reply }

// Forward asks another node for the part of a request that it can answer. It is
// answered there, by whatever it has; nothing is forwarded twice.
type Forward struct {
	// Number is the asker's, never used again by its process.
	Number uint64
	Method uint16
	// Wait is for how long the asker waits, counted from its sending; 0: not said.
	Wait time.Duration
	// Partitions that the answer is to be about; nil: those the request names.
	Partitions []ring.Partition
	// Body is a request message of nornv1.
	Body gproto.Message
	// Choosy says that a claim request is to be declined where much better tasks are
	// known to be elsewhere.
	Choosy bool
	// Scope is what the sender of the request may see and do; nil: everything.
	Scope *guard.Scope
	// By is who its sender is; empty: nobody has to show that.
	By string
}

// Forwarded answers a [Forward]: a message or an error.
type Forwarded struct {
	Number  uint64
	Method  uint16
	Message gproto.Message
	Err     *proto.Error
	// Grants are those in the message. The asker tells back when they surely never
	// reached the client: [Dropped].
	Grants []GrantRef
	// Declined says that a choosy claim request was granted nothing though there is
	// something.
	Declined bool
}

// Withdraw says that nobody waits for the answer to a Forward any more.
type Withdraw struct{ Number uint64 }

// Dropped says that grants surely never reached the client.
type Dropped struct{ Grants []GrantRef }

func (*Forward) peerMessage()   {}
func (*Forwarded) peerMessage() {}
func (*Withdraw) peerMessage()  {}
func (*Dropped) peerMessage()   {}
