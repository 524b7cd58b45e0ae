package client

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// verifyPage is how many partitions are asked about at a time.
	verifyPage = 64
	// verifyPause is between two looks at the same partition.
	verifyPause = 500 * time.Millisecond
	// verifyPatience is for how long replicas that do not answer are asked again.
	verifyPatience = 3 * time.Second
)

// VerifyOptions are what [Cluster.Verify] is asked for.
type VerifyOptions struct {
	// Partitions to verify; none: all.
	Partitions []uint32
	// Wait is for how long to look again at replicas that differ: writes may be
	// under way, and so may be the repair of a difference. 0: not at all.
	Wait time.Duration
	// Progress hears how many partitions were found to be in order, of how many;
	// nil: nobody.
	Progress func(done, total int)
}

// Verification is what [Cluster.Verify] has found.
type Verification struct {
	// Partitions are all that were verified, in order, as they were seen last.
	Partitions []*nornv1.VerifiedPartition
	// Differing and Unreachable are how many of them have replicas that do not
	// hold the same, and replicas that did not answer.
	Differing, Unreachable int
}

// Verify asks every replica of every partition what it holds, and compares:
// the roots of their trees of facts, and the counters of their tasks. It changes
// nothing. A difference is reported when it was there as long as the options say.
func (k Cluster) Verify(ctx context.Context, o VerifyOptions) (*Verification, error) {
	ids := slices.Clone(o.Partitions)
	if len(ids) == 0 {
		if err := k.c.connect(ctx, "verify"); err != nil {
			return nil, err
		}
		for p := range k.c.Info().Partitions {
			ids = append(ids, uint32(p))
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	found := make(map[uint32]*nornv1.VerifiedPartition, len(ids))
	open, began := ids, time.Now()
	for look := 0; ; look++ {
		size := verifyPage
		if look > 0 {
			size = proto.MaxVerifyQueues // with the queues that differ
		}
		for page := range slices.Chunk(open, size) {
			if err := k.look(ctx, page, look > 0, found); err != nil {
				return nil, err
			}
			if o.Progress != nil {
				o.Progress(len(ids)-len(unequal(found, ids)), len(ids))
			}
		}
		open = unequal(found, open)
		wait := min(o.Wait, verifyPatience)
		for _, p := range open {
			if found[p].GetDiffers() {
				wait = o.Wait
			}
		}
		if len(open) == 0 || time.Since(began)+verifyPause > wait && (look > 0 || wait == 0) {
			break
		}
		k.c.sleep(ctx, verifyPause)
	}
	v := &Verification{}
	for _, p := range ids {
		v.Partitions = append(v.Partitions, found[p])
		if found[p].GetDiffers() {
			v.Differing++
		}
		if found[p].GetUnreachable() {
			v.Unreachable++
		}
	}
	return v, nil
}

// unequal gives the partitions that are not in order; those that were not looked
// at count too.
func unequal(found map[uint32]*nornv1.VerifiedPartition, of []uint32) (ids []uint32) {
	for _, p := range of {
		if f := found[p]; f == nil || f.GetDiffers() || f.GetUnreachable() {
			ids = append(ids, p)
		}
	}
	return ids
}

// look asks about some partitions once.
func (k Cluster) look(ctx context.Context, ids []uint32, queues bool, found map[uint32]*nornv1.VerifiedPartition) error {
	const op = "verify"
	var m nornv1.VerifyReply
	if err := k.c.read(ctx, op, nornv1.Method_METHOD_VERIFY, 0, &nornv1.VerifyRequest{Partitions: ids, Queues: queues}, &m); err != nil {
		return err
	}
	if !slices.EqualFunc(ids, m.GetPartitions(), func(id uint32, p *nornv1.VerifiedPartition) bool { return p.GetId() == id }) {
		return &Error{Op: op, Attempts: 1, Err: badAnswer(errOtherPartitions)}
	}
	for _, p := range m.GetPartitions() {
		slices.SortFunc(p.Replicas, func(a, b *nornv1.ReplicaState) int {
			return cmp.Or(cmp.Compare(a.GetNode(), b.GetNode()), cmp.Compare(a.GetIncarnation(), b.GetIncarnation()))
		})
		found[p.GetId()] = p
	}
	return nil
}
