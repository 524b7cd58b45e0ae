// Package node runs a [core.Core]: the one loop around it, the disk, the
// client port, the clock, the disk watch. The world is here; what the node
// decides is in the core.
//
// Who starts what: [Start] opens the data directory and starts the loop (steps
// the core and applies its batches), the syncer (makes them durable and lets
// replies go), the disk watch and the client port. [Node.Stop] ends them in
// the opposite order and returns when all are gone. What must not go on after
// a failure of the disk or of a record ends the process through Options.Fatal.
package node
