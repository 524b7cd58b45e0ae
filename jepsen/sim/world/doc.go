// Package world is the time and the chance of a simulation: an ordered heap of what is
// going to happen, one source of random numbers, and the clocks of machines.
//
//   - The same seed gives the same order of events: of several at one time the first one
//     asked for comes first.
//   - A machine's monotonic clock stands still while it is suspended, its wall clock drifts
//     and is set ([Local]); what is due in a process that has ended does not happen.
package world
