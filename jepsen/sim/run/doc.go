// Package run is what everybody in a simulated run shares ([State]): its virtual time and chance,
// its plan, the tasks that clients have made ([Board]), and its history, event by event, with
// the first violation that was found in it.
//
//   - Whatever is recorded is held to the promises at once (jepsen/check), and digested: equal
//     seeds have equal histories.
//   - The invariants that the simulator itself looks for are named here (invariants.go), the
//     times that hold for all runs too (times.go), and at which levels clients write and read
//     (levels.go).
//
// It knows neither nodes nor clients; both embed it.
package run
