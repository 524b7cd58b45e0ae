package message

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"

	gproto "google.golang.org/protobuf/proto"
)

// Origin is where a request came from and where its answer goes.
type Origin struct {
	Conn, Request uint64
	Method        uint16 // repeated in the answer
}

// NumberOf names a request by connection and number alone: whoever cancels it does
// not say what it was.
func NumberOf(o Origin) Origin { return Origin{Conn: o.Conn, Request: o.Request} }

// Request is a client's request.
type Request struct {
	From Origin
	// Body is a request message of nornv1.
	Body gproto.Message
	// Received is when its frame was read, mono ns.
	Received int64
	// Deadline is when the client gives up, mono ns; 0: never.
	Deadline int64

	Scope *guard.Scope // what its sender may see and do; nil: everything
	By    string       // who its sender is; empty: nobody has to show that

	Routed     bool             // it is answered here, by whatever is here
	Prompt     bool             // other parts of its request wait for its answer: a claim that is not granted at once is given up
	Choosy     bool             // see [Forward]
	Heard      bool             // others have been asked about those of its tasks that are not known here
	Inquired   bool             // a claim, and other leaders have been asked what they have
	Unsure     bool             // too few of them have answered
	Confirm    ConfirmedSince   // a majority has been asked whether this node leads
	Partitions []ring.Partition // that it is about; nil: all it names
	Led        bool             // it is about those that are led here when it is answered
}

// LedQueues is a request for the queues as they are in the partitions that this node
// leads: over all nodes each task counts once.
func LedQueues(from Origin, m *nornv1.QueuesRequest, received int64) *Request {
	return &Request{From: from, Body: m, Received: received, Routed: true, Led: true}
}

// Cancel withdraws a request that waits.
type Cancel struct{ From Origin }

// Gone says that a connection has closed: its waiting requests go.
type Gone struct{ Conn uint64 }

// Undelivered says that a reply with these grants surely never left: the tasks
// are freed at once instead of after their leases (design 7.3).
type Undelivered struct{ Grants []GrantRef }

// ReadDone says that a read with [Read.Waits] has run. Empty: it found nothing
// new and gave no reply.
type ReadDone struct {
	From  Origin
	Empty bool
}

// Drain says that the node is about to stop: requests that wait are sent away,
// new ones are refused.
type Drain struct{}

// Dismissed says that this node is no member of its cluster any more: it was
// removed, or another one has taken its place. The register does not tell it
// anything from then on.
type Dismissed struct{}

// DiskStalled tells whether the disk keeps this node waiting for longer than it
// may: then others are to lead.
type DiskStalled struct{ Is bool }

// Heard tells that a client has pinged on a connection, or that a part of a frame has come,
// which may keep a ping waiting for long.
type Heard struct {
	Conn uint64
	Part bool
}

// DiskSpace tells how many bytes are free on the data disk, and below how many of them
// enqueues are refused; 0: as the core is configured.
type DiskSpace struct{ Free, Reserve uint64 }

// Rest tells that load has ended: buffers that are kept for more of it go.
type Rest struct{}

// Registered is the register's answer.
type Registered struct{ Result register.Result }

// Archived says what became of an archive: it is on disk and was read back, or
// it has failed and its tasks must stay.
type Archived struct {
	Tag    uint64
	Tasks  int // how many of the first ones are in it
	Failed bool
}

// Changed is the register after a change, as this node's member of its group saw
// it.
type Changed struct {
	State register.State
	// Leads says that this member leads the group.
	Leads bool
	// Voters are the members that vote; while that changes, Outgoing those that voted
	// before and still have to agree. Majority says that there is a leader.
	Voters, Outgoing []register.Member
	Majority         bool
}

// Alive tells which other nodes are thought to be reachable. It is a hint:
// nothing but waiting and choosing depends on it.
type Alive struct {
	Members []register.Member
	// Clients are the addresses where clients reach nodes, as far as known.
	Clients map[register.Member]string
}

// Tick lets time pass.
type Tick struct{}

// GrantRef names a claim that was handed out.
type GrantRef struct {
	Partition ring.Partition
	Task      id.ID
	Token     uint64
	Ask       AskKey // the request it was granted to
	// Answer is the number of the answer that carries it. A request that came twice
	// is answered twice, and what says that one of them was dropped may come twice
	// too.
	Answer uint64

	By   register.Member // who granted it; zero: this node
	Over bool            // the claim has ended, of one that a desk remembers
}

// Is tells whether two name the same claim, whatever answer carries it.
func (g GrantRef) Is(o GrantRef) bool {
	o.Answer, o.By, o.Over = g.Answer, g.By, g.Over
	return g == o
}

// Reply is an answer to one request: a message or an error.
type Reply struct {
	To      Origin
	Message gproto.Message
	Err     *proto.Error
	// Grants are undone if the reply surely never leaves.
	Grants []GrantRef
	// After is the round whose sync the reply waits for, an earlier one; 0: the
	// one that it is in.
	After uint64

	Declined bool // see [Forwarded]
}

// Read is a read that runs beside the machine, on a snapshot.
type Read struct {
	From Origin
	// Waits says that [ReadDone] must be stepped after the read has run.
	Waits bool
	// AsOf names what is read as of one moment, that of the first such read; nil: as of now.
	AsOf *[16]byte
	Func func(view store.View, now clock.Time) (gproto.Message, *proto.Error, error)
}

// Run executes the read. empty means that there is no reply yet. An error
// stops the node.
func (r *Read) Run(view store.View, now clock.Time) (reply Reply, empty bool, err error) {
	m, refusal, err := r.Func(view, now)
	if err != nil {
		return Reply{}, false, err
	}
	return Reply{To: r.From, Message: m, Err: refusal}, m == nil && refusal == nil, nil
}

// Archive is finished tasks to be written elsewhere before they are deleted. It
// runs beside the machine, on a snapshot; its outcome is stepped as [Archived].
type Archive struct {
	Tag  uint64
	Load func(store.View) ([]*nornv1.Task, error)
}

// Tasks reads the tasks. An error stops the node.
func (a *Archive) Tasks(view store.View) ([]*nornv1.Task, error) { return a.Load(view) }

// Ready is what the machine wants done; see the package comment for the order.
type Ready struct {
	// Round is its number, from 1: see [Reply.After].
	Round   uint64
	Persist *store.Batch // nil when there is nothing to write
	Send    []Send
	// Early may leave at once: it says nothing about what is on this disk.
	Early    []Send
	Register []register.Request
	// Commit are requests to the register that may leave only when what was
	// persisted with them is durable, like Send.
	Commit   []register.Request
	Reads    []Read
	Replies  []Reply
	Archives []Archive
	Decided  []Decided // what metrics count; nothing depends on it
	// Reborn: the node is to start again as another incarnation that goes on alone.
	Reborn   bool
	WakeWall int64 // wall ns, math.MaxInt64 for never
	WakeMono int64 // mono ns, clock.Never for never
}

// Empty tells whether there is nothing to do but wait.
func (r *Ready) Empty() bool {
	return r.Persist == nil && len(r.Register) == 0 && len(r.Reads) == 0 && len(r.Replies) == 0 && len(r.Archives) == 0 && len(r.Send) == 0 && len(r.Early) == 0 && len(r.Commit) == 0 && !r.Reborn
}

const (
	// OwnConns and above are the connections of callers within the process. Those of
	// clients are numbered from 1.
	OwnConns = uint64(1) << 61
	// PartConn is the connection of the parts of requests that this node answers itself.
	PartConn = uint64(1) << 62
	// PeerConns and above are the connections of other nodes.
	PeerConns = uint64(1) << 63
)

// Internal tells whether an answer is for this node itself or for another one:
// the loop steps it as [Answered] instead of sending it to a client.
func (o Origin) Internal() bool { return o.Conn >= PartConn }

// WorkConn is the connection of what the sessions of workers ask the cluster for.
const WorkConn = PartConn | 1<<61
