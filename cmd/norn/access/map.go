package access

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (k commands) maps() *cobra.Command {
	cmd := k.Group(&cobra.Command{Use: "map", Short: "Roles of certificates and JWTs", Aliases: []string{"maps"}, Example: "  norn access map set workers --cert 'spiffe://acme/worker-*' --role worker\n  norn access map list"})
	cmd.AddCommand(k.setMap(), &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List who has which roles by certificate or JWT", Args: cobra.NoArgs,
		Example: "  norn access map list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				m, err := a.List(ctx)
				if err != nil {
					return err
				}
				list := render.NewList(k.Writer(), func(r *nornv1.AccessMap) jsonform.Value { return jsonform.Of(r) },
					render.Column[*nornv1.AccessMap]{Head: "name", Cell: (*nornv1.AccessMap).GetName},
					render.Column[*nornv1.AccessMap]{Head: "certificate", Cell: (*nornv1.AccessMap).GetCertificate},
					render.Column[*nornv1.AccessMap]{Head: "jwt subject", Cell: (*nornv1.AccessMap).GetJwtSubject},
					render.Column[*nornv1.AccessMap]{Head: "roles", Cell: func(r *nornv1.AccessMap) string { return strings.Join(r.GetRoles(), ", ") }},
					render.Column[*nornv1.AccessMap]{Head: "tenant", Cell: (*nornv1.AccessMap).GetTenant},
				).None("no maps")
				for _, r := range m.GetMaps() {
					list.Add(r)
				}
				return list.Close()
			})
		},
	}, &cobra.Command{
		Use: "rm NAME", Short: "Take a map away; what is open of those whom it let in is closed", Args: cobra.ExactArgs(1),
		Example: "  norn access map rm workers",
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				revision, err := a.RemoveMap(ctx, args[0])
				return k.revision(revision, err)
			})
		},
	})
	return cmd
}

func (k commands) setMap() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Give roles to those who show a certificate or a JWT", Args: cobra.ExactArgs(1),
		Long: `Give roles to those who show a certificate with a name like this (auth-cert says which
names count: URIs, DNS names, in lower case, or the common name), or a JWT with a subject
like this. One star stands for any text. Of several maps that fit, the one with the
longest pattern counts, and one without a star before all others. A JWT has the roles of
its claim too.`,
		Example: "  norn access map set workers --cert 'spiffe://acme/worker-*' --role worker\n  norn access map set ci --jwt-sub ci@acme --role producer --tenant acme",
	}
	var o client.MapOptions
	f := cmd.Flags()
	f.StringVar(&o.Certificate, "cert", "", "`pattern` of a name in the certificate")
	f.StringVar(&o.JWTSubject, "jwt-sub", "", "`pattern` of the subject of a JWT")
	f.StringArrayVar(&o.Roles, "role", nil, "`role` that they have (repeatable)")
	f.StringVar(&o.Tenant, "tenant", "", "`name` of the tenant that they are of: they see nothing else")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (o.Certificate == "") == (o.JWTSubject == "") || len(o.Roles) == 0 {
			return k.Usage("give a map --cert or --jwt-sub, and at least one --role")
		}
		return k.do(cmd, func(ctx context.Context, a client.Access) error {
			revision, err := a.SetMap(ctx, args[0], o)
			return k.revision(revision, err)
		})
	}
	return cmd
}
