package leadership

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Standing is that of the node.
	Standing *standing.Machine
	// Others are told of what happens here, and asked for what is theirs to do.
	Others Others
	// Register is asked for cells.
	Register Register
}

// Others is the rest of a node.
type Others interface {
	// Won hears that this node leads a partition now; succeeds: after another one that went.
	Won(now clock.Time, v *vnode.Vnode, succeeds bool)
	// Lost hears that it leads a partition no more.
	Lost(p ring.Partition)
	// Compare has a partition compared with another member; [Machine.Compared] hears of it.
	Compare(now clock.Time, k message.Pair)
	// Forget has a partition deleted here.
	Forget(p ring.Partition)
	// Members is what placement knows of the members.
	Members() *placement.View
}

// Register is the register of cells.
type Register interface {
	// Change asks it for changes, Commit likewise once all is on disk that was
	// written up to now, and Read what it shows.
	Change(changes []register.Change)
	Commit(changes []register.Change, then func(clock.Time, register.Result))
	Read(then func(clock.Time, register.Result))
}

// Unread is about claims of an election that could not be read.
type Unread struct {
	Peer      string
	Partition ring.Partition
	Why       string
}
