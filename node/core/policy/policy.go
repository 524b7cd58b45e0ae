package policy

import (
	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/uniquekeys"
	"github.com/norn-dev/norn/node/core/workers"
)

// Policy is one for each machine that has any.
type Policy struct {
	Standing    standing.Policy
	Leadership  leadership.Policy
	Lease       lease.Policy
	Dependency  dependency.Policy
	Retention   retention.Policy
	Transfer    transfer.Policy
	Dispatch    dispatch.Policy
	Router      router.Policy
	Replication replication.Policy
	Workers     workers.Policy
	Cron        cron.Policy
	Query       query.Policy
	Scope       scope.Policy
	UniqueKeys  uniquekeys.Policy
}
