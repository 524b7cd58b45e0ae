package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (a commands) claim() *cobra.Command {
	cmd := &cobra.Command{
		Use: "claim", Short: "Claim tasks by hand", Args: cobra.NoArgs,
		Long: `Claim tasks, the highest priority first, then the oldest. The claim is not tied
to this program: it lasts until its lease is over, or the task is completed,
failed or released with its ID and token.`,
		Example: "  norn task claim -q mail\n  norn task claim -q mail,news -n 10 --lease 5m --wait 1m -o json",
	}
	queues := cmd.Flags().StringSliceP("queue", "q", nil, "from these `queues` (repeatable)")
	n := cmd.Flags().IntP("number", "n", 1, "at most so many tasks")
	lease := cmd.Flags().Duration("lease", 0, "for so long, 1s to 24h (default: the server's, 30s)")
	wait := cmd.Flags().Duration("wait", 0, "wait so long for something to be ready")
	name := cmd.Flags().String("worker", "", "`name` shown in the task's claims")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case len(*queues) == 0:
			return cli.Usage("no queue; name one with -q")
		case *n < 1 || *n > proto.MaxBatchTasks:
			return cli.Usage("--number: %d is not between 1 and %d", *n, proto.MaxBatchTasks)
		case *wait < 0:
			return cli.Usage("--wait: %s is negative", *wait)
		case cmd.Flags().Changed("lease") && *lease <= 0:
			return cli.Usage("--lease: %s is not between 1s and 24h", *lease)
		}
		signal.Ignore(syscall.SIGPIPE) // there is something left to do when nobody reads what is printed
		return a.With(cmd.Context(), func(c *client.Client) error {
			if *wait > 0 { // for tasks, and not for a typo
				if err := c.Connect(cmd.Context()); err != nil {
					return err
				}
			}
			r := client.ClaimRequest{Queues: *queues, Max: *n, Lease: *lease, Wait: *wait, Worker: *name}
			claims, err := claimWithin(r, func(r client.ClaimRequest) ([]*client.Claim, error) { return c.Claim(cmd.Context(), r) })
			if err != nil {
				return free(cmd.Context(), c, err)
			}
			list := grantList(a.Writer()).None("no task is ready there")
			for _, claim := range claims {
				list.Add(claim.Grant)
			}
			if len(claims) == 0 && a.Format == render.Table {
				a.Note("nothing is ready")
			}
			err = list.Close()
			if err != nil && len(claims) > 0 {
				err = errors.Join(err, giveBack(cmd.Context(), c, claims))
			}
			return err
		})
	}
	return cmd
}

// giveBack releases what nobody has heard of: it would wait for the end of its lease, and
// have used an attempt.
func giveBack(ctx context.Context, c *client.Client, claims []*client.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackFor)
	defer cancel()
	var refs []client.Ref
	for _, claim := range claims {
		refs = append(refs, claim.Ref())
	}
	results, err := c.Release(ctx, refs...)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// free frees what a claim may have been granted whose answer was lost, for the same reason.
func free(ctx context.Context, c *client.Client, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeFor)
	defer cancel()
	if c.FreeUnanswered(ctx) != nil {
		return err
	}
	return cli.FreedError{Err: err}
}

// giveBackFor and freeFor are how long that may take. Who interrupts a claim that waits for
// a server that is not there does not want to wait for long.
const (
	giveBackFor = 5 * time.Second
	freeFor     = 2 * time.Second
)

// claimWithin claims, and asks anew where it is to wait for longer than a server
// does.
func claimWithin(r client.ClaimRequest, ask func(client.ClaimRequest) ([]*client.Claim, error)) ([]*client.Claim, error) {
	end := time.Now().Add(r.Wait)
	for {
		r.Wait = min(max(0, time.Until(end)), proto.MaxWait)
		claims, err := ask(r)
		if err != nil || len(claims) > 0 || !time.Now().Before(end) {
			return claims, err
		}
	}
}

func grantList(w *render.Writer) *render.List[*nornv1.Grant] {
	return render.NewList(w, func(g *nornv1.Grant) jsonform.Value { return jsonform.Of(g) },
		render.Column[*nornv1.Grant]{Head: "id", Cell: func(g *nornv1.Grant) string { return g.GetTask().GetId() }},
		render.Column[*nornv1.Grant]{Head: "token", Cell: func(g *nornv1.Grant) string { return fmt.Sprint(g.GetToken()) }},
		render.Column[*nornv1.Grant]{Head: "queue", Cell: func(g *nornv1.Grant) string { return g.GetTask().GetQueue() }},
		render.Column[*nornv1.Grant]{Head: "lease", Cell: func(g *nornv1.Grant) string { return render.Duration(proto.Seconds(g.GetLeaseSeconds())) }},
		render.Column[*nornv1.Grant]{Head: "attempts", Cell: func(g *nornv1.Grant) string {
			return fmt.Sprintf("%d/%d", g.GetTask().GetAttempts(), g.GetTask().GetMaxAttempts())
		}},
		render.Column[*nornv1.Grant]{Head: "payload", Cell: func(g *nornv1.Grant) string { return render.Text(g.GetTask().GetPayload(), 40) }},
	)
}

func (a commands) renew() *cobra.Command {
	cmd := &cobra.Command{
		Use: "renew ID TOKEN", Short: "Renew a claim", Args: cobra.ExactArgs(2),
		Example: "  norn task renew 3ZyfAz4TTlNLdMEJYWbpzCDKw1p 4294967297 --lease 5m",
	}
	lease := cmd.Flags().Duration("lease", 0, "from now, 1s to 24h (default: as long as before)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := parseRef(args)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("lease") && *lease <= 0 {
			return cli.Usage("--lease: %s is not between 1s and 24h", *lease)
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			results, err := c.Renew(cmd.Context(), []client.Ref{ref}, *lease)
			if err == nil {
				err = results[0].Err
			}
			if err != nil {
				return err
			}
			r := results[0]
			v := jsonform.Of(r.Claim).With("lease_seconds", jsonform.Seconds(r.Lease))
			return a.Writer().Object(v, func(w io.Writer) {
				fmt.Fprintf(w, "renewed for %s, until %s\n", render.Duration(r.Lease), r.Claim.GetEnd().AsTime().Format(time.RFC3339))
			})
		})
	}
	return cmd
}

func (a commands) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "release ID TOKEN", Short: "Give a claimed task back, without using an attempt", Args: cobra.ExactArgs(2),
		Example: "  norn task release 3ZyfAz4TTlNLdMEJYWbpzCDKw1p 4294967297",
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseRef(args)
			if err != nil {
				return err
			}
			return a.With(cmd.Context(), func(c *client.Client) error {
				results, err := c.Release(cmd.Context(), ref)
				if err == nil {
					err = results[0].Err
				}
				if err != nil {
					return err
				}
				return a.Writer().Object(jsonform.Object(), func(w io.Writer) { fmt.Fprintln(w, "released") })
			})
		},
	}
}
