package claim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Outcome tells how a claim ended. The numbers are stored: append only.
type Outcome uint8

// Outcomes of a claim.
const (
	Active Outcome = iota
	Completed
	Failed
	Released
	Expired
	Ended // the task was finished by something else
)

// Record is a claim as it is stored and replicated.
type Record struct {
	Token   uint64 // epoch << 32 | seq
	Worker  string
	Session [16]byte      // the client process that asked
	Request uint64        // its request number: the pair makes claiming idempotent
	Start   int64         // wall ns on the leader
	End     int64         // wall ns on the leader
	Lease   time.Duration // length asked for at the grant or the last renewal
	Outcome Outcome
	// Principal is who was let in and asked; empty: nobody has to show who it is, or an
	// older build granted the claim.
	Principal string
}

// ErrRecord is returned when stored bytes are not a claim record.
var ErrRecord = errors.New("claim: malformed record")

// A record of the second version has a principal, and before the worker's name that name's
// length.
const (
	recordVersion    = 1
	principalVersion = 2
	recordFixed      = 1 + 1 + 16 + 8 + 8 + 8 + 8
)

// AppendTo appends the stored form of the record, all but the token, which is
// part of its key.
func (r *Record) AppendTo(dst []byte) []byte {
	version := byte(recordVersion)
	if r.Principal != "" {
		version = principalVersion
	}
	dst = append(dst, version, byte(r.Outcome))
	dst = append(dst, r.Session[:]...)
	dst = binary.BigEndian.AppendUint64(dst, r.Request)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Start))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.End))
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Lease))
	if r.Principal != "" {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(r.Worker)))
	}
	return append(append(dst, r.Worker...), r.Principal...)
}

// DecodeRecord is the inverse of [Record.AppendTo]; the token comes from the
// key. It returns ErrRecord when the bytes are not a record.
func DecodeRecord(token uint64, b []byte) (Record, error) {
	if len(b) < recordFixed {
		return Record{}, fmt.Errorf("%w: %d bytes", ErrRecord, len(b))
	}
	version := b[0]
	if version != recordVersion && version != principalVersion || Outcome(b[1]) > Ended {
		return Record{}, fmt.Errorf("%w: version %d, outcome %d", ErrRecord, version, b[1])
	}
	r := Record{Token: token, Outcome: Outcome(b[1]), Session: [16]byte(b[2:18])}
	b = b[18:]
	r.Request = binary.BigEndian.Uint64(b)
	r.Start = int64(binary.BigEndian.Uint64(b[8:]))
	r.End = int64(binary.BigEndian.Uint64(b[16:]))
	r.Lease = time.Duration(binary.BigEndian.Uint64(b[24:]))
	if b = b[32:]; version == recordVersion {
		r.Worker = string(b)
		return r, nil
	}
	n := 0
	if len(b) > 2 {
		n = int(binary.BigEndian.Uint16(b))
	}
	if len(b) <= 2+n {
		return Record{}, fmt.Errorf("%w: version %d without a principal", ErrRecord, version)
	}
	r.Worker, r.Principal = string(b[2:2+n]), string(b[2+n:])
	return r, nil
}
