package policy

import (
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
)

// Policy is one for each machine that has any.
type Policy struct {
	Standing   standing.Policy
	Leadership leadership.Policy
	Lease      lease.Policy
	Dependency dependency.Policy
	Retention  retention.Policy
	Transfer   transfer.Policy
}
