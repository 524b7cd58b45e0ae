// Package ring says which partition an ID belongs to.
//
// Contract: the partition of an ID is a function of its bytes and of the
// number of partitions, which is fixed when a cluster is made; it never
// changes, whatever happens to nodes and cohorts.
package ring
