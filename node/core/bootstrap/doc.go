// Package bootstrap keeps tasks out of a cluster that is being made, until every partition has as
// many copies as nodes are expected: until then an acknowledgement of a majority would be one of
// a single copy.
//
// In: the register's state, in the view of a node. Out: the end of it, as a change of the register.
package bootstrap
