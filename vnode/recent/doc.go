// Package recent knows which tasks of a partition may be stored already, without a read of
// the store: two generations of a Bloom filter over the newest IDs.
package recent
