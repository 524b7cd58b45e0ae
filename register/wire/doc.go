// Package wire writes and reads the few shapes that the register's bytes are
// made of: integers, strings, fixed arrays and counted lists.
//
// Contract: a reader never panics and never allocates more than the bytes it
// was given allow. Its first error sticks; everything read after it is zero,
// so a decoder asks once, with [Reader.End], and not after each field.
package wire
