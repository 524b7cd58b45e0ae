// Package crdt is what is known about a task: its facts, their canonical
// bytes, their join, and the state of the task as a function of them.
//
// A task's stored form is the set of its facts (design 5). A fact has a key
// within its task and a body; it is never rewritten, and its body is determined
// by its key. So the join of two replicas is the union, and it does not matter
// in which order, how often or by which way facts arrive. Where two sides wrote
// different bodies under one key, [Wins] picks the same one everywhere, and
// whoever adds the second is told of the clash.
//
// Contract:
//
//  1. One body, one encoding: decoders accept exactly what the encoders write
//     for a canonical value, so bytes may be compared, hashed, stored and sent
//     in place of what they mean.
//  2. Everything derived from facts ([Task], [Sum]) is a function of the set.
//  3. A completion wins over every other fact, whenever it arrives.
//  4. Update n+1 of a claim is not visible until update n is there.
//
// Encoding, version 1: a body is the version byte and then the fields in the
// order in which the encoder writes them, without names. A number is one byte
// up to 247; above, a byte 247+n and the n bytes of the number, big endian,
// without leading zeros. Byte order is number order, and since bodies have
// their times before other content, of two bodies that differ in time the
// earlier one wins. Signed times and durations are taken as unsigned, priority
// is zigzag. Bytes and text have their length before them, flags are one byte.
//
// A fact has a CRC beside these bytes, which no hash takes in: it tells content from
// damage, of a disk, a wire or the memory of any node on the way.
//
// Decoded values share the []byte fields with their input; nobody may change
// either.
package crdt
