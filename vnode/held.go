package vnode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

// ErrHeld is returned when bytes are not claims as [AppendHeld] writes them.
var ErrHeld = errors.New("vnode: malformed claims")

const (
	heldVersion = 1
	// maxWorker bounds each name in a record; the protocol takes 256 bytes.
	maxWorker = 512
)

// checkRecord returns ErrHeld for the record of a claim that has ended or that
// no leader can have granted.
func checkRecord(r *claim.Record) error {
	if r.Outcome != claim.Active || r.Lease < 0 || r.Lease > clock.MaxLease || max(len(r.Worker), len(r.Principal)) > maxWorker {
		return fmt.Errorf("%w: outcome %d, lease %v, names of %d and %d bytes", ErrHeld, r.Outcome, r.Lease, len(r.Worker), len(r.Principal))
	}
	return nil
}

// AppendHeld appends the canonical form of claims that are sorted as [Snapshot]
// and [Join] give them: a version, and for each claim the task, the token and
// the record with its length, which is 0 for a released one.
func AppendHeld(dst []byte, all []Held) []byte {
	dst = append(dst, heldVersion)
	var record []byte
	for i := range all {
		h := &all[i]
		dst = append(dst, h.Task[:]...)
		dst = binary.BigEndian.AppendUint64(dst, h.Record.Token)
		if record = record[:0]; !h.Released {
			record = h.Record.AppendTo(record)
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(record)))
		dst = append(dst, record...)
	}
	return dst
}

const heldFixed = id.Size + 8 + 2

// DecodeHeld is the inverse of [AppendHeld]. It takes no more memory than a
// small multiple of its input, and returns ErrHeld for bytes that are not
// canonical: out of order, of a claim that has ended, of a lease that is longer
// than any.
func DecodeHeld(b []byte) (all []Held, err error) {
	if len(b) == 0 || b[0] != heldVersion {
		return nil, fmt.Errorf("%w: no version, or a newer one", ErrHeld)
	}
	for b = b[1:]; len(b) > 0; {
		if len(b) < heldFixed {
			return nil, fmt.Errorf("%w: %d bytes are left over", ErrHeld, len(b))
		}
		h := Held{Task: id.ID(b)}
		h.Record.Token = binary.BigEndian.Uint64(b[id.Size:])
		n := int(binary.BigEndian.Uint16(b[id.Size+8:]))
		if b = b[heldFixed:]; n > len(b) {
			return nil, fmt.Errorf("%w: a record of %d bytes", ErrHeld, n)
		}
		if h.Released = n == 0; !h.Released {
			if h.Record, err = claim.DecodeRecord(h.Record.Token, b[:n]); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrHeld, err)
			}
			if err := checkRecord(&h.Record); err != nil {
				return nil, err
			}
		}
		if len(all) > 0 && all[len(all)-1].compare(&h) >= 0 {
			return nil, fmt.Errorf("%w: claims out of order", ErrHeld)
		}
		all, b = append(all, h), b[n:]
	}
	return all, nil
}
