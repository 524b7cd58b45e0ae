package queuestats

import (
	"context"

	"github.com/norn-dev/norn/node/core/quota"

	"github.com/prometheus/client_golang/prometheus"
)

// Tenants shows what each tenant of the register uses on this node, as its limits count it: there are no more
// series than there may be tenants.
type Tenants struct {
	post  func(TenantsAsked) bool
	under context.Context // ends when the node stops
	all   []tenantGauge
}

// tenantGauge is one number of a tenant.
type tenantGauge struct {
	desc *prometheus.Desc
	of   func(*quota.Use) uint64
}

// TenantsAsked is a question to the loop of the node: what each tenant uses now. It takes one answer.
type TenantsAsked chan []quota.Use

// NewTenants makes the metrics of tenants. post has the loop answer; false: it does not run.
func NewTenants(ctx context.Context, post func(TenantsAsked) bool) *Tenants {
	gauge := func(name, help string, of func(*quota.Use) uint64) tenantGauge {
		return tenantGauge{prometheus.NewDesc(name, help, []string{"tenant"}, nil), of}
	}
	return &Tenants{post, ctx, []tenantGauge{
		gauge("norn_tenant_queues", "Queues of a tenant that this node knows of, with settings or tasks.", func(u *quota.Use) uint64 { return u.Queues }),
		gauge("norn_tenant_tasks", "Tasks of a tenant that are not finished, in the partitions that this node keeps: each counts once per replica in the sum of all nodes.", func(u *quota.Use) uint64 { return u.Tasks }),
		gauge("norn_tenant_bytes", "Bytes of the payloads and headers of the tasks of a tenant, finished ones too, in the partitions that this node keeps: each counts once per replica in the sum of all nodes.", func(u *quota.Use) uint64 { return u.Bytes }),
		gauge("norn_tenant_schedules", "Schedules of a tenant.", func(u *quota.Use) uint64 { return u.Schedules }),
		gauge("norn_tenant_claims", "Tasks of a tenant under a claim that this node knows of.", func(u *quota.Use) uint64 { return u.Claims }),
		gauge("norn_tenant_waits", "Requests of a tenant that wait on this node.", func(u *quota.Use) uint64 { return u.Waits }),
	}}
}

// Describe gives what there is to collect.
func (m *Tenants) Describe(to chan<- *prometheus.Desc) {
	for i := range m.all {
		to <- m.all[i].desc
	}
}

// Collect gives the values. Without an answer in time there are none, rather than old ones.
func (m *Tenants) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(m.under, answerTime)
	defer cancel()
	asked := make(TenantsAsked, 1)
	if !m.post(asked) {
		return
	}
	select {
	case uses := <-asked:
		for i := range uses {
			for _, g := range m.all {
				to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.of(&uses[i])), uses[i].Tenant)
			}
		}
	case <-ctx.Done():
	}
}
