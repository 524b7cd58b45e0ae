// Package registertest holds every register.Register to the contract of package
// register: one suite for the register of a cluster of one, for the Raft group,
// and for whatever comes after them.
//
// [Run] takes a [Cluster] that can lose power, be cut apart and heal, and runs
// each test in a testing/synctest bubble, so that time-outs cost no time.
// [Network] joins members in memory.
package registertest
