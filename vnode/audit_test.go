package vnode_test

import (
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/audit"
)

var _ = audits()

// audits lets the tests of package vnode audit.
func audits() bool {
	vnode.Audit = audit.Partition
	return true
}
