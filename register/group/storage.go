package group

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/store"
)

// The keys. They share a store with others under one prefix.
const (
	metaKey     = "group/meta"
	hardKey     = "group/hard"
	bootKey     = "group/boot"
	snapKey     = "group/snap"
	dataPrefix  = "group/snapdata/"
	logPrefix   = "group/log/"
	logEnd      = "group/log0" // the first key behind those of the log
	metaVersion = 1
)

// meta is written once, when the store is formatted.
type meta struct {
	cluster register.UUID
	self    register.Member
}

func (m *meta) encode() []byte {
	var w wire.Writer
	w.Byte(metaVersion)
	w.Fixed(m.cluster[:])
	register.AppendMember(&w, m.self)
	return w.B
}

func decodeMeta(b []byte) (m meta, err error) {
	r := wire.NewReader(b)
	if r.Byte() != metaVersion {
		r.Fail()
	}
	r.Fixed(m.cluster[:])
	m.self = register.ReadMember(r)
	return m, r.End()
}

// sealed puts a checksum before bytes, and opened takes it off: what a disk has
// changed must not be taken for what was written.
func sealed(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, xxhash.Sum64(b)), b...)
}

func opened(b []byte) ([]byte, bool) {
	if len(b) < 8 || binary.LittleEndian.Uint64(b) != xxhash.Sum64(b[8:]) {
		return nil, false
	}
	return b[8:], true
}

func logKey(index uint64) []byte { return binary.BigEndian.AppendUint64([]byte(logPrefix), index) }

func dataKey(i int) []byte { return binary.BigEndian.AppendUint32([]byte(dataPrefix), uint32(i)) }

// disk is the log and the last snapshot: on the store, and the log in memory
// too, which compaction keeps small. It is what raft reads.
type disk struct {
	hard *pb.HardState
	boot uint64 // starts before this one
	// The snapshot on the store.
	snap   *pb.SnapshotMetadata
	pieces int
	// The log behind base, which is compacted; the term of base is known.
	base, baseTerm uint64
	entries        []*pb.Entry
	size           int // bytes of data in entries behind the snapshot
	// latest makes a snapshot of what is applied, conf is the configuration by then.
	latest func() *pb.Snapshot
	conf   func() *pb.ConfState
}

var _ raft.Storage = (*disk)(nil)

// InitialState is what raft starts with.
func (d *disk) InitialState() (*pb.HardState, *pb.ConfState, error) {
	return d.hard, pb.EnsureConfState(proto.Clone(d.conf()).(*pb.ConfState)), nil
}

func (d *disk) last() uint64 { return d.base + uint64(len(d.entries)) }

// Entries gives entries from lo to before hi, at least one and not more bytes
// than limit.
func (d *disk) Entries(lo, hi, limit uint64) ([]*pb.Entry, error) {
	if lo <= d.base {
		return nil, raft.ErrCompacted
	}
	if hi > d.last()+1 || lo >= hi {
		return nil, raft.ErrUnavailable
	}
	all := d.entries[lo-d.base-1 : hi-d.base-1]
	size, n := uint64(0), 0
	for n < len(all) {
		if size += uint64(proto.Size(all[n])); n > 0 && size > limit {
			break
		}
		n++
	}
	return all[:n:n], nil
}

// Term gives the term of an entry.
func (d *disk) Term(i uint64) (uint64, error) {
	switch {
	case i < d.base:
		return 0, raft.ErrCompacted
	case i == d.base:
		return d.baseTerm, nil
	case i > d.last():
		return 0, raft.ErrUnavailable
	}
	return d.entries[i-d.base-1].GetTerm(), nil
}

// LastIndex is the end of the log.
func (d *disk) LastIndex() (uint64, error) { return d.last(), nil }

// FirstIndex is its beginning.
func (d *disk) FirstIndex() (uint64, error) { return d.base + 1, nil }

// Snapshot is one of what is applied: newer than the one on the store.
func (d *disk) Snapshot() (*pb.Snapshot, error) { return d.latest(), nil }

// append writes entries; those of the log from the first of them on are gone.
func (d *disk) append(b store.Writer, entries []*pb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	if first <= d.base || first > d.last()+1 {
		return fmt.Errorf("%w: entry %d does not follow a log of %d to %d", ErrBroken, first, d.base, d.last())
	}
	for i := first + uint64(len(entries)); i <= d.last(); i++ {
		b.Delete(logKey(i))
	}
	kept := d.entries[: first-d.base-1 : first-d.base-1]
	for _, e := range d.entries[len(kept):] {
		d.size -= len(e.GetData())
	}
	for _, e := range entries {
		raw, err := proto.Marshal(e)
		if err != nil {
			return fmt.Errorf("%w: %v", ErrBroken, err)
		}
		b.Set(logKey(e.GetIndex()), sealed(raw))
		d.size += len(e.GetData())
	}
	d.entries = append(kept, entries...)
	return nil
}

// setHard writes term, vote and commit index.
func (d *disk) setHard(b store.Writer, hard *pb.HardState) error {
	raw, err := proto.Marshal(hard)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	d.hard = hard
	b.Set([]byte(hardKey), sealed(raw))
	return nil
}

// setBoot writes the number of this start.
func (d *disk) setBoot(b store.Writer, boot uint64) {
	d.boot = boot
	b.Set([]byte(bootKey), sealed(binary.BigEndian.AppendUint64(nil, boot)))
}

// setSnapshot writes a snapshot in place of the one before.
func (d *disk) setSnapshot(b store.Writer, snap *pb.Snapshot) error {
	raw, err := proto.Marshal(snap.GetMetadata())
	if err != nil {
		return fmt.Errorf("%w: %v", ErrBroken, err)
	}
	data := snap.GetData()
	n := 0
	for rest := data; len(rest) > 0; n++ {
		piece := rest[:min(len(rest), chunkSize)]
		rest = rest[len(piece):]
		b.Set(dataKey(n), piece)
	}
	for i := n; i < d.pieces; i++ {
		b.Delete(dataKey(i))
	}
	var w wire.Writer
	w.Uint(uint64(n))
	w.Uint(uint64(len(data)))
	w.Uint(xxhash.Sum64(data))
	w.Bytes(raw)
	b.Set([]byte(snapKey), sealed(w.B))
	d.snap, d.pieces = snap.GetMetadata(), n
	return nil
}

// reset makes the log begin behind a snapshot that came from the leader.
func (d *disk) reset(b store.Writer, snap *pb.Snapshot) error {
	for i := d.base; i <= d.last(); i++ { // the entry at base may still be there, see loadLog
		b.Delete(logKey(i))
	}
	d.base, d.baseTerm = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetTerm()
	d.entries, d.size = nil, 0
	return d.setSnapshot(b, snap)
}

// compact writes a snapshot of what is applied and drops the log before it but
// for the last entries, so many and so many bytes at most, which slow followers
// may still want.
func (d *disk) compact(b store.Writer, snap *pb.Snapshot, keep, keepBytes int) error {
	index := snap.GetMetadata().GetIndex()
	if err := d.setSnapshot(b, snap); err != nil {
		return err
	}
	to := index
	for ; keep > 0 && to > d.base; keep, to = keep-1, to-1 {
		if keepBytes -= len(d.entries[to-d.base-1].GetData()); keepBytes < 0 {
			break
		}
	}
	if to > d.base {
		term, err := d.Term(to)
		if err != nil {
			return fmt.Errorf("%w: %v", ErrBroken, err)
		}
		for i := d.base; i <= to; i++ {
			b.Delete(logKey(i))
		}
		d.entries = append([]*pb.Entry(nil), d.entries[to-d.base:]...)
		d.base, d.baseTerm = to, term
	}
	d.size = 0
	for _, e := range d.entries[index-d.base:] {
		d.size += len(e.GetData())
	}
	return nil
}

// load reads what a store holds. It returns ErrNotFormatted when there is
// nothing, and wire.ErrDamaged when it is not what was written: damaged is not
// absent.
func load(v store.View) (m meta, d *disk, p replica, err error) {
	raw, ok := v.Get([]byte(metaKey))
	if !ok {
		return m, nil, p, register.ErrNotFormatted
	}
	damaged := func(what string) (meta, *disk, replica, error) {
		return meta{}, nil, replica{}, fmt.Errorf("%w: %s of the register's group", wire.ErrDamaged, what)
	}
	if raw, ok = opened(raw); !ok {
		return damaged("identity")
	}
	if m, err = decodeMeta(raw); err != nil {
		return damaged("identity")
	}
	d = &disk{hard: &pb.HardState{}, snap: &pb.SnapshotMetadata{}}
	p = newReplica(register.State{})
	if raw, ok = v.Get([]byte(hardKey)); ok {
		if raw, ok = opened(raw); !ok || proto.Unmarshal(raw, d.hard) != nil {
			return damaged("term and vote")
		}
	}
	raw, _ = v.Get([]byte(bootKey))
	if raw, ok = opened(raw); !ok || len(raw) != 8 {
		return damaged("number of starts")
	}
	d.boot = binary.BigEndian.Uint64(raw)
	if raw, ok = v.Get([]byte(snapKey)); ok {
		if p, err = d.loadSnapshot(v, raw); err != nil {
			return meta{}, nil, p, err
		}
	}
	if err = d.loadLog(v); err != nil {
		return meta{}, nil, p, err
	}
	if c := d.hard.GetCommit(); c > d.last() || c < d.snap.GetIndex() {
		return damaged(fmt.Sprintf("commit index %d for a log from %d to %d and", c, d.snap.GetIndex(), d.last()))
	}
	return m, d, p, nil
}

func (d *disk) loadSnapshot(v store.View, raw []byte) (replica, error) {
	damaged := fmt.Errorf("%w: snapshot of the register's group", wire.ErrDamaged)
	raw, ok := opened(raw)
	if !ok {
		return replica{}, damaged
	}
	r := wire.NewReader(raw)
	pieces, size, sum := r.Uint(), r.Uint(), r.Uint()
	head := r.Bytes(maxHeader)
	if r.End() != nil || size > maxSnapshot || pieces > size || proto.Unmarshal(head, d.snap) != nil {
		return replica{}, damaged
	}
	var data []byte
	for i := range int(pieces) {
		piece, ok := v.Get(dataKey(i))
		if !ok {
			return replica{}, damaged
		}
		data = append(data, piece...)
	}
	if uint64(len(data)) != size || xxhash.Sum64(data) != sum {
		return replica{}, damaged
	}
	d.pieces = int(pieces)
	d.base, d.baseTerm = d.snap.GetIndex(), d.snap.GetTerm()
	return decodeReplica(data)
}

func (d *disk) loadLog(v store.View) error {
	for key, value := range v.Scan([]byte(logPrefix), []byte(logEnd)) {
		raw, ok := opened(value)
		e := &pb.Entry{}
		if !ok || proto.Unmarshal(raw, e) != nil || string(logKey(e.GetIndex())) != string(key) {
			return fmt.Errorf("%w: an entry in the log of the register's group", wire.ErrDamaged)
		}
		switch {
		case len(d.entries) == 0 && e.GetIndex() <= d.base: // kept for slow followers
			// The entry itself becomes the one before the first.
			d.base, d.baseTerm = e.GetIndex(), e.GetTerm()
			continue
		case e.GetIndex() != d.last()+1:
			return fmt.Errorf("%w: entry %d follows %d in the log of the register's group", wire.ErrDamaged, e.GetIndex(), d.last())
		}
		d.entries = append(d.entries, e)
		if e.GetIndex() > d.snap.GetIndex() {
			d.size += len(e.GetData())
		}
	}
	return nil
}
