// Package sysclock reads this machine's clocks, and shows them wrong where a test wants it so.
//
// Contract.
//
//   - The monotonic clock never goes back, also when it is set wrong. It stands still while the
//     machine is suspended: on the side that waits for leases to lapse that only delays.
//   - Outside of tests it shows what the machine does; a file sets it wrong only where the
//     configuration names one ([Clock.Follow]).
package sysclock
