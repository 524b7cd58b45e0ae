package capacity

import (
	"errors"
	"math"
	"time"

	"github.com/norn-dev/norn/ring"
)

// ErrDemand is returned when a demand makes no sense.
var ErrDemand = errors.New("capacity: bad demand")

// Demand is what a cluster is to do.
type Demand struct {
	TasksPerDay float64
	Payload     float64       // bytes of a task: payload and headers
	Retention   time.Duration // how long a finished task is kept
	GCGrace     time.Duration // how long its tombstone is kept after that
	Replicas    int
	Batch       int     // tasks that are enqueued, claimed and completed at once
	Peak        float64 // the busiest second, relative to the mean of the day
	Cores       float64 // of a node
	Busy        float64 // how much of them may be used, 0 to 1
}

// Coefficients are what was measured.
type Coefficients struct {
	// CPUOne and CPUBatch are µs of processor of all nodes for one task with three copies: enqueued,
	// claimed and completed one at a time, and 100 at a time (docs/explanation/performance.md, beside NATS JetStream,
	// the slower of its hours).
	CPUOne, CPUBatch float64
	// CPUIdle is ms of processor a second that an idle node uses for itself, CPUPeer for each other
	// node (docs/explanation/scaling.md, 3 to 60 real processes).
	CPUIdle, CPUPeer float64
	// MemoryNode, MemoryPeer, MemoryPartition and MemoryOther are MiB of a node, for each other node,
	// for each partition that it keeps, and for each one that others keep (docs/explanation/scaling.md).
	MemoryNode, MemoryPeer, MemoryPartition, MemoryOther float64
	// DiskTask and DiskTombstone are bytes of a copy of a task beyond its payload, and of what is
	// left of it once it is collected (docs/how-to/deploy.md, How large the disk).
	DiskTask, DiskTombstone float64
	// DiskSpare is how much a disk has to hold for each byte that is kept: merging writes tables anew
	// beside those that they replace.
	DiskSpare float64
	// PacketsTask are packets between three nodes for a task on its own; FramesPeer the signs of life
	// between two idle nodes in a second.
	PacketsTask, FramesPeer float64
}

// Measured are the coefficients of this build, on virtual cores of an AMD EPYC.
var Measured = Coefficients{
	CPUOne: 103 + 379, CPUBatch: 21 + 53, CPUIdle: 10.9, CPUPeer: 0.05,
	MemoryNode: 69, MemoryPeer: 0.085, MemoryPartition: 3.5 / 1024, MemoryOther: 1.2 / 1024,
	DiskTask: 110, DiskTombstone: 90, DiskSpare: 2,
	PacketsTask: 30, FramesPeer: 2,
}

const (
	// maxNodes is the largest cluster that is reckoned with; more tasks take several clusters.
	maxNodes = 200
	// perNode is how many partitions there are to be for each node, least how many at least.
	perNode, least = 10, 64
	// batch is from how many tasks at once on [Coefficients.CPUBatch] counts.
	batch = 100
)

// Plan is what a demand needs.
type Plan struct {
	Rate       float64 // tasks a second when it is busiest
	Clusters   int
	Nodes      int     // of each cluster
	Partitions int     // of each cluster
	Busy       float64 // of the processors of a node then, 0 to 1
	Idle       float64 // ms of processor a second of an idle node
	Memory     float64 // MiB of a node, at least
	Disk       float64 // bytes of the disk of a node
	Signs      float64 // signs of life that a node sends and gets in a second
	Packets    float64 // of a node in a second when it is busiest, for tasks one at a time
}

// Reckon says what a demand needs. The error is ErrDemand.
func (c Coefficients) Reckon(d Demand) (p Plan, err error) {
	if !(d.TasksPerDay > 0) || d.TasksPerDay > 1e15 || d.Payload < 0 || d.Retention < 0 || d.GCGrace < 0 || d.Replicas < 1 || d.Replicas > ring.MaxReplicas ||
		d.Peak < 1 || !(d.Cores > 0) || !(d.Busy > 0) || d.Busy > 1 {
		return Plan{}, ErrDemand
	}
	const day = 24 * time.Hour
	all := d.TasksPerDay / day.Seconds() * d.Peak
	cpu := c.CPUOne
	if d.Batch >= batch {
		cpu = c.CPUBatch
	}
	for p.Clusters = 1; ; {
		p.Rate = all / float64(p.Clusters)
		load := p.Rate * cpu * float64(d.Replicas) / 3 * 1e-6 // cores
		room := func(n int) float64 { return d.Cores*d.Busy - c.idle(n)/1000 }
		for p.Nodes = d.Replicas; p.Nodes <= maxNodes && load > float64(p.Nodes)*room(p.Nodes); {
			p.Nodes++
		}
		if p.Nodes <= maxNodes {
			p.Busy, p.Idle = (load/float64(p.Nodes)+c.idle(p.Nodes)/1000)/d.Cores, c.idle(p.Nodes)
			break
		}
		if room(maxNodes) <= 0 {
			return Plan{}, ErrDemand // what an idle node uses is more than it may
		}
		p.Clusters = max(p.Clusters+1, int(math.Ceil(float64(p.Clusters)*load/(maxNodes*room(maxNodes)))))
	}
	for p.Partitions = least; p.Partitions < perNode*p.Nodes && p.Partitions < ring.MaxPartitions; {
		p.Partitions *= 2
	}
	nodes := float64(p.Nodes)
	kept := (d.Payload+c.DiskTask)*d.Retention.Hours()/24 + c.DiskTombstone*d.GCGrace.Hours()/24 // bytes of a copy, of one task a day
	p.Disk = d.TasksPerDay / float64(p.Clusters) * kept * float64(d.Replicas) / nodes * c.DiskSpare
	ours := float64(p.Partitions*d.Replicas) / nodes
	p.Memory = c.MemoryNode + c.MemoryPeer*(nodes-1) + c.MemoryPartition*ours + c.MemoryOther*(float64(p.Partitions)-ours)
	p.Signs = c.FramesPeer * (nodes - 1)
	p.Packets = p.Rate * c.PacketsTask * 2 / nodes // each is sent by one and got by another
	return p, nil
}

// idle is ms of processor a second of an idle node among so many.
func (c Coefficients) idle(nodes int) float64 { return c.CPUIdle + c.CPUPeer*float64(nodes-1) }
