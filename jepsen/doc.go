// Package jepsen is where Norn is tested to destruction. It holds no code; its
// parts are
//
//   - history: what clients did and saw, one format for simulator and laboratory;
//   - check: the promises, as checkers of a history;
//   - sim: whole node cores with virtual clocks, disks and networks, from one seed.
package jepsen
