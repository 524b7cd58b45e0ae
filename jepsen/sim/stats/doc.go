// Package stats counts what happens in simulations, and says what happened too rarely
// for them to prove anything: a storm without wind proves nothing.
package stats
