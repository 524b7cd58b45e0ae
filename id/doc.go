// Package id makes and reads the 20-byte IDs of tasks (design 3).
//
// An ID is a valid KSUID; its binary and its text order agree, and both are
// the order of time:
//
//	[0:4]   seconds since the KSUID epoch (Unix time 1,400,000,000)
//	[4:8]   nanoseconds << 2 | kind
//	[8:12]  generator, random, drawn at each start of a node or SDK
//	[12:20] 64 random bits
//
// Where an ID is to lie in a given partition, the last twelve bytes are random ones
// that give it that hash ([Generator.Hashed]). All who draw IDs in one second choose
// among the same few partitions ([Window]).
//
// Launches and unique keys have, in place of the last twelve bytes, the first
// 96 bits of a SHA-256 of what they name, so that whoever names the same thing
// makes the same ID.
//
// The seconds end on 2150-06-19. Times before the epoch (2014-05-13) and after
// the end are held at the ends of the range.
package id
