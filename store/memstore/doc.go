// Package memstore is the store of the simulator: an ordered map in memory that
// tells what is synced from what is not, and that can crash at any point.
//
// Contract: that of package store, and
//
//  1. The same calls give the same answers: no goroutine, no clock, no
//     randomness. What a crash keeps is the caller's to choose.
//  2. [Mem.Crash] gives everything that was synced and the chosen number of
//     unsynced batches, oldest first, each whole.
//  3. It is used from one goroutine.
package memstore
