package access

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// poll is between two looks at nodes.
const poll = 200 * time.Millisecond

func (k commands) tokens() *cobra.Command {
	cmd := k.Group(&cobra.Command{Use: "token", Short: "Tokens that let in with roles", Aliases: []string{"tokens"}, Example: "  norn access token create --name ci --role producer --ttl 24h\n  norn access token list"})
	cmd.AddCommand(k.createToken(), k.listTokens(), k.renewToken(), k.revokeToken(), &cobra.Command{
		Use: "enable", Short: "Let tokens in again that a restore has suspended", Args: cobra.NoArgs,
		Long: `Let tokens in again that a restore of the register has suspended: which ones were
revoked after the backup was made nobody can know. List them and revoke those first.
This takes a token of auth-token-file.`,
		Example: "  norn access token enable",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.do(cmd, func(ctx context.Context, a client.Access) error {
				revision, err := a.EnableTokens(ctx)
				return k.revision(revision, err)
			})
		},
	})
	return cmd
}

func (k commands) createToken() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create", Short: "Make a token, and print it once", Args: cobra.NoArgs,
		Long:    "Make a token, and print it: norn_ID_SECRET. The server keeps a hash of it, and never\nshows it again.",
		Example: "  norn access token create --name ci --role producer --ttl 24h\n  norn access token create --name billing --role worker --from 10.0.0.0/8 > token",
	}
	var o client.TokenOptions
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "`name` of the token, for people")
	f.StringArrayVar(&o.Roles, "role", nil, "`role` of the token (repeatable)")
	f.DurationVar(&o.TTL, "ttl", 0, "for how `long` it lets in (0: without an end)")
	f.StringVar(&o.Tenant, "tenant", "", "`name` of the tenant that it is of: it sees nothing else")
	f.StringArrayVar(&o.From, "from", nil, "`address` or network from which it lets in (repeatable; default: everywhere)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Name == "" || len(o.Roles) == 0 {
			return k.Usage("give a token a --name and at least one --role")
		}
		return k.do(cmd, func(ctx context.Context, a client.Access) error {
			token, revision, err := a.CreateToken(ctx, o)
			if err != nil {
				return err
			}
			v := jsonform.Object().With("token", jsonform.String(token)).With("revision", jsonform.Number(float64(revision)))
			return k.Writer().Object(v, func(w io.Writer) { _, _ = fmt.Fprintln(w, token) })
		})
	}
	return cmd
}

func (k commands) listTokens() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tokens, never their secrets", Args: cobra.NoArgs,
		Long:    "List tokens with their roles, ends, and when a node in reach was shown them last since\nits start.",
		Example: "  norn access token list",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all *nornv1.AccessReply
			used := make(map[string]*nornv1.AccessToken)
			_, err := k.everywhere(cmd.Context(), func(ctx context.Context, _ string, a client.Access) error {
				m, err := a.List(ctx)
				if err != nil {
					return err
				}
				for _, t := range m.GetTokens() {
					if u := used[t.GetId()]; u == nil || u.GetLastUsed().AsTime().Before(t.GetLastUsed().AsTime()) {
						used[t.GetId()] = t
					}
				}
				if all == nil || all.GetRevision() < m.GetRevision() {
					all = m
				}
				return nil
			})
			if err != nil {
				return err
			}
			if all.GetSuspended() {
				k.Note("the tokens are suspended since the register was restored: revoke those that must not let in, then norn access token enable")
			}
			list := tokenList(k.Writer())
			for _, t := range all.GetTokens() {
				t.LastUsed = used[t.GetId()].GetLastUsed()
				list.Add(t)
			}
			return list.Close()
		},
	}
}

func tokenList(w *render.Writer) *render.List[*nornv1.AccessToken] {
	when := func(set bool, at time.Time, otherwise string) string {
		if !set {
			return otherwise
		}
		return at.Format(time.RFC3339)
	}
	return render.NewList(w, func(t *nornv1.AccessToken) jsonform.Value { return jsonform.Of(t) },
		render.Column[*nornv1.AccessToken]{Head: "id", Cell: (*nornv1.AccessToken).GetId},
		render.Column[*nornv1.AccessToken]{Head: "name", Cell: (*nornv1.AccessToken).GetName},
		render.Column[*nornv1.AccessToken]{Head: "roles", Cell: func(t *nornv1.AccessToken) string { return strings.Join(t.GetRoles(), ", ") }},
		render.Column[*nornv1.AccessToken]{Head: "tenant", Cell: (*nornv1.AccessToken).GetTenant},
		render.Column[*nornv1.AccessToken]{Head: "expires", Cell: func(t *nornv1.AccessToken) string {
			return when(t.GetExpires() != nil, t.GetExpires().AsTime(), "never")
		}},
		render.Column[*nornv1.AccessToken]{Head: "last used", Cell: func(t *nornv1.AccessToken) string {
			return when(t.GetLastUsed() != nil, t.GetLastUsed().AsTime(), "")
		}},
		render.Column[*nornv1.AccessToken]{Head: "from", Cell: func(t *nornv1.AccessToken) string { return strings.Join(t.GetFrom(), ", ") }},
	).None("no tokens")
}

func (k commands) renewToken() *cobra.Command {
	cmd := &cobra.Command{Use: "renew ID", Short: "Move the end of a token", Args: cobra.ExactArgs(1), Example: "  norn access token renew 7f3a19c2 --ttl 24h"}
	ttl := cmd.Flags().Duration("ttl", 0, "for how `long` it lets in from now on (0: without an end)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return k.do(cmd, func(ctx context.Context, a client.Access) error {
			revision, err := a.RenewToken(ctx, args[0], *ttl)
			return k.revision(revision, err)
		})
	}
	return cmd
}

func (k commands) revokeToken() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke ID", Short: "End a token for good", Args: cobra.ExactArgs(1),
		Long: `End a token for good. Its connections are closed, at each node as soon as that hears
of it. With --wait it returns when all nodes that are up have; exit code 4, and their
names: some have not in time (--timeout).`,
		Example: "  norn access token revoke 7f3a19c2 --wait",
	}
	wait := cmd.Flags().Bool("wait", false, "wait until all nodes that are up know of it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var revision uint64
		err := k.do(cmd, func(ctx context.Context, a client.Access) (err error) {
			revision, err = a.RevokeToken(ctx, args[0])
			return err
		})
		if err == nil && *wait {
			err = k.known(cmd.Context(), revision)
		}
		return k.revision(revision, err)
	}
	return cmd
}

// known waits until all nodes that are up have seen a revision.
func (k commands) known(ctx context.Context, revision uint64) error {
	for end := time.Now().Add(*k.Timeout); ; {
		behind, err := k.everywhere(ctx, func(ctx context.Context, node string, a client.Access) error {
			m, err := a.WhoAmI(ctx)
			if err == nil && m.GetRevision() < revision {
				err = fmt.Errorf("node %s is at revision %d", node, m.GetRevision())
			}
			return err
		})
		if err == nil && len(behind) == 0 {
			return nil
		}
		if time.Now().After(end) {
			if err == nil {
				err = fmt.Errorf("%w: revision %d is written, and not known yet on %s", client.ErrNoQuorum, revision, strings.Join(behind, ", "))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
	}
}

// everywhere asks each node that is up, and gives the names of those that did not answer as
// they should. The error is that none did, or that the first one cannot be asked.
func (k commands) everywhere(ctx context.Context, ask func(ctx context.Context, node string, a client.Access) error) (failed []string, err error) {
	status := &nornv1.StatusReply{}
	err = k.With(ctx, func(c *client.Client) (err error) {
		status, err = c.Cluster().Status(ctx, client.StatusOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	answered := 0
	for _, n := range status.GetNodes() {
		if !n.GetAlive() || n.GetState() == "removed" {
			continue
		}
		e := errNoAddress
		if n.GetAddress() != "" {
			var c *client.Client
			if c, e = k.Dial(ctx, []string{n.GetAddress()}); e == nil {
				e = ask(ctx, n.GetName(), c.Cluster().Access())
				_ = c.Close()
			}
		}
		if e == nil {
			answered++
			continue
		}
		failed, err = append(failed, n.GetName()), e
	}
	if answered > 0 {
		err = nil
	}
	return failed, err
}

var errNoAddress = fmt.Errorf("%w: nobody knows the client address of a node", client.ErrNoQuorum)

func (k commands) audit() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Show who did what, on all nodes in reach", Args: cobra.NoArgs,
		Long: `Show who changed settings, schedules, workers, members and rights, and what was
refused: the newest lines that each node in reach remembers since its start, in the
order of their times. The whole is where audit-log of each server says.`,
		Example: "  norn access audit\n  norn access audit -f | jq -r 'select(.decision == \"denied\")'",
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "go on with what comes")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		last := make(map[string]uint64)
		for {
			var lines []string
			failed, err := k.everywhere(cmd.Context(), func(ctx context.Context, node string, a client.Access) error {
				some, newest, err := a.Audit(ctx, last[node])
				if err != nil {
					return err
				}
				if newest < last[node] { // it has started again
					some, newest, err = a.Audit(ctx, 0)
				}
				lines, last[node] = append(lines, some...), newest
				return err
			})
			if err != nil {
				return err
			}
			if len(failed) > 0 {
				k.Note("not heard: %s", strings.Join(failed, ", "))
			}
			k.printAudit(lines)
			if !*follow {
				return nil
			}
			select {
			case <-cmd.Context().Done():
				return cmd.Context().Err()
			case <-time.After(time.Second):
			}
		}
	}
	return cmd
}

// printAudit prints lines in the order of their times.
func (k commands) printAudit(lines []string) {
	at := func(line string) time.Time {
		var r struct{ Time time.Time }
		_ = json.Unmarshal([]byte(line), &r) // one without a time comes first
		return r.Time
	}
	slices.SortStableFunc(lines, func(x, y string) int { return at(x).Compare(at(y)) })
	for _, line := range lines {
		_, _ = fmt.Fprintln(k.Out, line)
	}
}
