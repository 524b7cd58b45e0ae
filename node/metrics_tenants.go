package node

import (
	"context"

	"github.com/norn-dev/norn/node/core/quota"
)

// tenantsAsked has the loop say what each tenant uses here.
type tenantsAsked chan []quota.Use

// tenantsUse asks the loop; nil: there was no answer.
func tenantsUse(ctx context.Context, n *Node) []quota.Use {
	if !n.begun.Load() {
		return nil
	}
	asked := make(tenantsAsked, 1)
	n.inbox.post(asked)
	select {
	case uses := <-asked:
		return uses
	case <-ctx.Done():
		return nil
	}
}
