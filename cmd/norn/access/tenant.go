package access

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (k commands) tenants() *cobra.Command {
	cmd := k.Group(&cobra.Command{Use: "tenant", Short: "Tenants: prefixes of names, with limits", Aliases: []string{"tenants"}, Example: "  norn access tenant set acme --max-queues 100 --max-tasks 1000000\n  norn access tenant list"})
	cmd.AddCommand(k.setTenant(), &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tenants with their limits", Args: cobra.NoArgs,
		Example: "  norn access tenant list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				m, err := a.List(ctx)
				if err != nil {
					return err
				}
				list := tenantList(k.Writer())
				for _, t := range m.GetTenants() {
					list.Add(t)
				}
				return list.Close()
			})
		},
	}, &cobra.Command{
		Use: "rm NAME", Short: "Take a tenant away that no token and no map has any more", Args: cobra.ExactArgs(1),
		Long:    "Take a tenant away that no token and no map has any more. Its queues stay, without limits.",
		Example: "  norn access tenant rm acme",
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				revision, err := a.RemoveTenant(ctx, args[0])
				return k.revision(revision, err)
			})
		},
	})
	return cmd
}

func tenantList(w *render.Writer) *render.List[*nornv1.AccessTenant] {
	limit := func(of func(*nornv1.TenantLimits) uint64) func(*nornv1.AccessTenant) string {
		return func(t *nornv1.AccessTenant) string {
			if n := of(t.GetLimits()); n > 0 {
				return strconv.FormatUint(n, 10)
			}
			return ""
		}
	}
	type column = render.Column[*nornv1.AccessTenant]
	return render.NewList(w, func(t *nornv1.AccessTenant) jsonform.Value { return jsonform.Of(t) },
		column{Head: "name", Cell: (*nornv1.AccessTenant).GetName},
		column{Head: "prefix", Cell: (*nornv1.AccessTenant).GetPrefix},
		column{Head: "queues", Cell: limit((*nornv1.TenantLimits).GetQueues)},
		column{Head: "tasks", Cell: limit((*nornv1.TenantLimits).GetTasks)},
		column{Head: "bytes", Cell: limit((*nornv1.TenantLimits).GetBytes)},
		column{Head: "schedules", Cell: limit((*nornv1.TenantLimits).GetSchedules)},
		column{Head: "claims", Cell: limit((*nornv1.TenantLimits).GetClaims)},
		column{Head: "waits", Cell: limit((*nornv1.TenantLimits).GetWaits)},
		column{Head: "connections", Cell: limit((*nornv1.TenantLimits).GetConnections)},
		column{Head: "rate", Cell: func(t *nornv1.AccessTenant) string {
			if r := t.GetLimits().GetRate(); r > 0 {
				return strconv.FormatFloat(r, 'g', -1, 64) + "/s"
			}
			return ""
		}},
	).None("no tenants")
}

func (k commands) setTenant() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Make a tenant, or give it other limits", Args: cobra.ExactArgs(1),
		Long: `Make a tenant, or give it other limits: those that are not given are none. The names of
its queues, schedules and workers begin with its prefix, and who is of the tenant (token
create --tenant, map set --tenant) sees nothing else. Queues, tasks, bytes and schedules
are limits of the cluster; claims, waits, connections and the rate are those of each node.`,
		Example: "  norn access tenant set acme --max-queues 100 --max-tasks 1000000 --max-bytes 10GiB\n  norn access tenant set acme --max-waits 5000 --max-connections 500 --rate 2000",
	}
	var l nornv1.TenantLimits
	f := cmd.Flags()
	prefix := f.String("prefix", "", "`prefix` of its names, a name and a slash (default: NAME/)")
	for _, limit := range []struct {
		to         *uint64
		name, what string
	}{
		{&l.Queues, "queues", "queues with tasks or settings, in the cluster"}, {&l.Tasks, "tasks", "tasks that are not finished, in the cluster"},
		{&l.Schedules, "schedules", "schedules, in the cluster"},
		{&l.Claims, "claims", "tasks under a claim, on each node"}, {&l.Waits, "waits", "requests that wait, on each node"}, {&l.Connections, "connections", "connections, to each node"},
	} {
		f.Uint64Var(limit.to, "max-"+limit.name, 0, limit.what+" (0: no limit of its own)")
	}
	size := f.String("max-bytes", "", "payloads and headers of all tasks, finished ones too until they are collected, in the cluster: `bytes`, or 10GiB (empty: no limit of its own)")
	f.Float64Var(&l.Rate, "rate", 0, "`requests` a second, on each node (0: no limit)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *size != "" {
			n, err := config.ParseSize(*size)
			if err != nil {
				return k.Usage("--max-bytes: %v", err)
			}
			l.Bytes = uint64(n)
		}
		return k.do(cmd, func(ctx context.Context, a client.Access) error {
			revision, err := a.SetTenant(ctx, args[0], *prefix, &l)
			return k.revision(revision, err)
		})
	}
	return cmd
}
