package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// giveBackFor bounds what is done about claims that nothing is begun with.
const giveBackFor = 5 * time.Second

// pull is the source that asks: with claims that wait, at any node, for as many
// tasks as there is room for. It has no session; that a task was cancelled it
// learns from the refused renewal.
type pull struct {
	client *client.Client
	lease  time.Duration
	name   string
	shared bool // queues have slots or weights of their own
	clock  func() stamp
	log    *slog.Logger

	shares session.Shares // of take alone
}

// take asks for tasks. What a call without an answer was granted is freed by the
// next one (package client).
func (p *pull) take(ctx context.Context, d demand) ([]granted, error) {
	if p.shared {
		return p.takeShares(ctx, d)
	}
	return p.ask(ctx, p.request(d.room, d.wait, d.queues...))
}

func (p *pull) request(room int, wait time.Duration, queues ...appetite) client.ClaimRequest {
	r := client.ClaimRequest{Max: room, Wait: wait, Lease: p.lease, Worker: p.name}
	for _, q := range queues {
		r.Queues = append(r.Queues, q.Queue)
	}
	return r
}

// ask makes one claim. What a server grants beyond what was asked for has no
// place here and is given back.
func (p *pull) ask(ctx context.Context, r client.ClaimRequest) ([]granted, error) {
	before := p.clock()
	claims, err := p.client.Claim(ctx, r)
	if err != nil {
		return nil, err
	}
	if len(claims) > r.Max {
		p.giveBack(ctx, claims[r.Max:])
		claims = claims[:r.Max]
	}
	got := make([]granted, len(claims))
	for i, c := range claims {
		got[i] = granted{c, before}
	}
	return got, nil
}

// takeShares asks queue by queue, and waits at all of them when all are empty.
// The first task that comes then decides nothing: so one is asked for.
func (p *pull) takeShares(ctx context.Context, d demand) (all []granted, err error) {
	left, empty := d.room, make([]bool, len(d.queues))
	for round, divide := range []func([]appetite, []bool, int) []int{p.shares.Split, p.shares.Leftover} {
		for i, share := range divide(d.queues, empty, left) {
			if share == 0 {
				continue
			}
			q := &d.queues[i]
			got, err := p.ask(ctx, p.request(share, 0, *q))
			all, left, q.Room = append(all, got...), left-len(got), q.Room-len(got)
			if err != nil {
				if len(all) > 0 {
					return all, nil // the next call will say
				}
				return nil, err
			}
			if round == 0 { // what others do not need costs nothing
				p.shares.Took(q.Queue, len(got))
			}
			if empty[i] = len(got) < share; empty[i] {
				p.shares.Empty(q.Queue)
			}
		}
		if left == 0 || !slices.Contains(empty, true) {
			break
		}
	}
	if len(all) > 0 || d.wait == 0 {
		return all, nil
	}
	return p.ask(ctx, p.request(1, d.wait, d.queues...))
}

func (p *pull) renew(ctx context.Context, claims []client.Ref) ([]client.RenewResult, stamp, error) {
	before := p.clock()
	results, err := p.client.Renew(ctx, claims, p.lease)
	return results, before, err
}

func (p *pull) report(ctx context.Context, claim client.Ref, o outcome) (nornv1.State, error) {
	if o.failed != nil {
		return p.client.Fail(ctx, claim.ID, claim.Token, *o.failed)
	}
	_, err := p.client.Complete(ctx, claim.ID, claim.Token, o.done)
	return nornv1.State_STATE_COMPLETED, err
}

func (p *pull) release(ctx context.Context, claims ...client.Ref) error {
	results, err := p.client.Release(ctx, claims...)
	errs := []error{err}
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}

// giveBack gives claims back that there is no place for.
func (p *pull) giveBack(ctx context.Context, claims []*client.Claim) {
	if len(claims) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackFor)
	defer cancel()
	refs := make([]client.Ref, len(claims))
	for i, c := range claims {
		refs[i] = c.Ref()
	}
	if err := p.release(ctx, refs...); err != nil {
		p.log.Warn("claims could not be released and will lapse", "claims", len(refs), "error", err)
	}
}

// close frees what a claim was granted whose answer was not waited for: otherwise
// it would block the tasks and cost attempts.
func (p *pull) close(ctx context.Context) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackFor)
	defer cancel()
	if err := p.client.FreeUnanswered(asking); err != nil {
		p.log.Warn("tasks may have been granted on the way out; their claims will lapse", "error", err)
	}
}

// over has nothing to do: a claim that nobody renews lapses.
func (p *pull) over(client.Ref) {}

// end has nothing to do.
func (p *pull) end(context.Context) {}
