package vnode

import (
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Audit is audit.Partition, which imports this package: the tests outside of it bring it here.
var Audit func(view store.View, p ring.Partition) error
