package access

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Host is what the commands need of the program that they are part of.
type Host struct {
	// With calls with a client of the addresses that were given, Dial makes one of others.
	With func(context.Context, func(*client.Client) error) error
	Dial func(ctx context.Context, addrs []string) (*client.Client, error)
	// Writer writes what was asked for, Out is where that goes, Note tells people more.
	Writer func() *render.Writer
	Out    io.Writer
	Note   func(format string, args ...any)
	// Timeout is for one call.
	Timeout *time.Duration
	// Group completes a command that has others, Usage is the error of a wrong command line.
	Group func(*cobra.Command) *cobra.Command
	Usage func(format string, args ...any) error
	// Denied is the error of a check that was answered with no.
	Denied error
}

// commands show and change who may do what.
type commands struct{ Host }

// Commands gives norn access.
func Commands(h Host) *cobra.Command {
	k := commands{h}
	cmd := k.Group(&cobra.Command{
		Use: "access", Short: "Roles, tokens, tenants, and who did what",
		Long: `Roles, tokens, tenants, and who did what. A token has roles; a role allows verbs on queues.
The verbs are enqueue, work, see, read (payloads, results, errors and logs), operate
(cancel, retry, settings of queues), schedule, control (workers), cluster and access.
The built-in roles are producer, worker, viewer, operator, admin and metrics.

A server asks for tokens with auth: access or with auth-token-file, whose tokens may
do everything: they make the first ones here.`,
		Example: "  norn access token create --name ci --role producer --ttl 24h\n  norn access whoami",
	})
	cmd.AddCommand(k.roles(), k.tokens(), k.maps(), k.tenants(), k.whoami(), k.check(), k.audit())
	return cmd
}

func (k commands) do(cmd *cobra.Command, what func(context.Context, client.Access) error) error {
	return k.With(cmd.Context(), func(c *client.Client) error { return what(cmd.Context(), c.Cluster().Access()) })
}

func (k commands) roles() *cobra.Command {
	cmd := k.Group(&cobra.Command{Use: "role", Short: "Roles: verbs on queues", Aliases: []string{"roles"}, Example: "  norn access role set mailer --allow enqueue:acme/mail* --allow see:acme/*\n  norn access role list"})
	set := &cobra.Command{
		Use: "set NAME", Short: "Make a role, or give it other rules", Args: cobra.ExactArgs(1),
		Long: `Make a role, or give it other rules: VERB[,VERB…]:PATTERN each. A pattern is a queue
name, the beginning of queue names with a star behind it (acme/*), or * for all.
What tokens may do that have the role changes at once, on connections that are open too.`,
		Example: "  norn access role set mailer --allow enqueue:acme/mail* --allow see:acme/*",
	}
	allow := set.Flags().StringArray("allow", nil, "`verbs:pattern` that the role allows (repeatable)")
	set.RunE = func(cmd *cobra.Command, args []string) error {
		if len(*allow) == 0 {
			return k.Usage("give at least one --allow VERBS:PATTERN")
		}
		return k.do(cmd, func(ctx context.Context, a client.Access) error {
			revision, err := a.SetRole(ctx, args[0], *allow...)
			return k.revision(revision, err)
		})
	}
	cmd.AddCommand(set, &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List roles with their rules", Args: cobra.NoArgs,
		Example: "  norn access role list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				m, err := a.List(ctx)
				if err != nil {
					return err
				}
				list := render.NewList(k.Writer(), func(r *nornv1.AccessRole) jsonform.Value { return jsonform.Of(r) },
					render.Column[*nornv1.AccessRole]{Head: "name", Cell: (*nornv1.AccessRole).GetName},
					render.Column[*nornv1.AccessRole]{Head: "allow", Cell: func(r *nornv1.AccessRole) string { return strings.Join(r.GetAllow(), " ") }},
					render.Column[*nornv1.AccessRole]{Head: "", Cell: func(r *nornv1.AccessRole) string {
						if r.GetBuiltIn() {
							return "built in"
						}
						return ""
					}})
				for _, r := range m.GetRoles() {
					list.Add(r)
				}
				return list.Close()
			})
		},
	}, &cobra.Command{
		Use: "rm NAME", Short: "Take a role away that no token has any more", Args: cobra.ExactArgs(1),
		Example: "  norn access role rm mailer",
		RunE: func(cmd *cobra.Command, args []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				revision, err := a.RemoveRole(ctx, args[0])
				return k.revision(revision, err)
			})
		},
	})
	return cmd
}

// revision prints that of a change.
func (k commands) revision(revision uint64, err error) error {
	if err != nil {
		return err
	}
	return k.Writer().Object(jsonform.Object().With("revision", jsonform.Number(float64(revision))), func(w io.Writer) { _, _ = fmt.Fprintf(w, "revision %d\n", revision) })
}

func (k commands) whoami() *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show whom the server takes you for, and what you may do", Args: cobra.NoArgs,
		Example: "  norn access whoami",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				m, err := a.WhoAmI(ctx)
				if err != nil {
					return err
				}
				return k.Writer().Object(jsonform.Of(m), func(w io.Writer) {
					expires := "never"
					if m.GetExpires() != nil {
						expires = m.GetExpires().AsTime().Format(time.RFC3339)
					}
					render.Pairs(w, [2]string{"name", m.GetName()}, [2]string{"id", m.GetId()}, [2]string{"roles", strings.Join(m.GetRoles(), ", ")},
						[2]string{"proof", m.GetProof()}, [2]string{"may", strings.Join(m.GetAllow(), " ")}, [2]string{"tenant", m.GetTenant()}, [2]string{"expires", expires}, [2]string{"node", m.GetNode()})
				})
			})
		},
	}
}

func (k commands) check() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check VERB [QUEUE]", Short: "Say whether somebody may do something", Args: cobra.RangeArgs(1, 2),
		Long:    "Say whether a token, or whoever asks, may do something. Exit code 1: it may not.",
		Example: "  norn access check --as ci work acme/mail",
	}
	as := cmd.Flags().String("as", "", "`ID` or name of the token (default: your own)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.do(cmd, func(ctx context.Context, a client.Access) error {
			queue := ""
			if len(args) > 1 {
				queue = args[1]
			}
			allowed, reason, err := a.Check(ctx, *as, args[0], queue)
			if err != nil {
				return err
			}
			err = k.Writer().Object(jsonform.Object().With("allowed", jsonform.Bool(allowed)).With("reason", jsonform.String(reason)), func(w io.Writer) {
				if allowed {
					reason = "allowed"
				}
				_, _ = fmt.Fprintln(w, reason)
			})
			if err == nil && !allowed {
				return k.Denied
			}
			return err
		})
	}
	return cmd
}
