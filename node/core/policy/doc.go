// Package policy gathers the policies of the machines of a node: which of their rules are
// left out. The zero [Policy] keeps all of them, and no program that is shipped has another
// one: the hunt (package jepsen/hunt) sets one field at a time, to see that a test or a
// simulation finds it.
package policy
