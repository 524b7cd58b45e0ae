package ring

import (
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/norn-dev/norn/id"
)

// MaxPartitions is the largest number of partitions of a cluster: an election
// batch or a placement over all of them must stay well under a second
// (design 12).
const MaxPartitions = 4096

// Partition is one slice of the ID space, from 0 to the number of partitions
// less one.
type Partition uint16

// ErrPartitions is returned when a number of partitions is not 1 to
// [MaxPartitions].
var ErrPartitions = errors.New("ring: number of partitions out of range")

// Of gives the partition of an ID among so many: xxhash64(id) mod partitions
// (design 2). The number must be valid, see [ValidPartitions]; everything is
// in partition 0 if it is not positive.
func Of(i id.ID, partitions int) Partition {
	if partitions <= 0 {
		return 0
	}
	return Partition(xxhash.Sum64(i[:]) % uint64(partitions))
}

// HashIn is the hash of an ID, changed so that an ID that has it is in the given
// partition (see [id.Generator.Hashed]).
func HashIn(i id.ID, p Partition, partitions int) uint64 {
	n := uint64(max(partitions, 1))
	return xxhash.Sum64(i[:])/n%(math.MaxUint64/n)*n + uint64(p) // the last part of all hashes is not whole
}

// ValidPartitions returns ErrPartitions unless n is 1 to [MaxPartitions].
func ValidPartitions(n int) error {
	if n < 1 || n > MaxPartitions {
		return fmt.Errorf("%w: %d, not 1 to %d", ErrPartitions, n, MaxPartitions)
	}
	return nil
}
