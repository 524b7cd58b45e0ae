package access

import (
	"slices"

	"github.com/norn-dev/norn/node/guard"

	"github.com/prometheus/client_golang/prometheus"
)

var connections = prometheus.NewDesc("norn_tenant_connections", "Connections of a tenant to the client port of this node.", []string{"tenant"}, nil)

// metricsRole is the built-in role of who reads metrics and nothing else.
const metricsRole = "metrics"

// Measured tells of what a caller may see metrics: shown judges a queue, and tenant is the name of
// its tenant. shown is nil where it may see all metrics of a node.
func (d *Desk) Measured(c *Caller) (shown func(queue string) bool, tenant string) {
	p, err := d.current(c)
	if err != nil {
		return func(string) bool { return false }, ""
	}
	scope := p.Scope()
	switch role := slices.Contains(p.Roles, metricsRole); {
	case scope == nil, p.Tenant == "" && (role || scope.May(guard.See, guard.Everything)):
		return nil, ""
	case role:
		return scope.Within, p.Tenant
	}
	return func(queue string) bool { return scope.May(guard.See, queue) }, p.Tenant
}
