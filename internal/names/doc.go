// Package names finds the addresses behind names, and dials what they lead to.
//
// Contract. A look-up runs beside those who wait for it, one per name at a time, and goes on
// when they give up: its answer serves the next one. While it is slow, or has failed, the
// last address that worked is dialled. Close ends all look-ups.
package names
