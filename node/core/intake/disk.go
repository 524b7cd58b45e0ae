package intake

import (
	"cmp"
	"fmt"

	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// writtenTwice is how often what is stored is written before the free space is looked at
// again: to the log, and to a table.
const writtenTwice = 2

// Disk is how much room the data disk has for new tasks.
//
// Invariant: between two looks Free only falls, by twice what is written: it may be too low,
// and then the next look says so; too high, and the disk would be full with the log of what was
// acknowledged.
type Disk struct {
	// Least is below how many free bytes enqueues are refused, as it is configured.
	Least uint64
	// Free is how many bytes were free when they were looked at, less what was written since.
	Free uint64

	reserve uint64 // bytes below which enqueues are refused; 0: as configured
}

// Look takes over what is free, and what is to stay so.
func (d *Disk) Look(free, reserve uint64) { d.Free, d.reserve = free, reserve }

// Wrote counts bytes that were written.
func (d *Disk) Wrote(n int) { d.Free -= min(d.Free, writtenTwice*uint64(n)) }

// Low tells whether the data disk is nearly full.
func (d *Disk) Low() bool { return d.Free < cmp.Or(d.reserve, d.Least) }

// Shown says how full it is.
func (d *Disk) Shown() string {
	return fmt.Sprintf("%.1f MiB are free, less than disk-reserve (%.1f MiB here)", mebibytes(d.Free), mebibytes(cmp.Or(d.reserve, d.Least)))
}

// Full says that the disk of a node has no room for new tasks.
func (d *Disk) Full(node string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_DISK_FULL, "the disk of node %s is nearly full, %s: enqueues are refused, completions are taken; free space, ask another node, add one or lower disk-reserve",
		node, d.Shown()).Again(convert.DiskRetry)
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }
