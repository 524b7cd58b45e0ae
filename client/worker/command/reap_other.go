//go:build !linux

package command

import "context"

func (r *Reaper) run(ctx context.Context) { <-ctx.Done() }
