// Package fakenode is a node that does what a test's script says: it speaks the
// protocol over connections in memory, can lose answers, close connections, fall
// silent, die and come back. It works within testing/synctest.
package fakenode
