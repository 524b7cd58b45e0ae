package snapshots

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

var (
	// ErrDamaged is returned for a snapshot that is not what was written.
	ErrDamaged = errors.New("snapshot of the register is damaged")
	// ErrVersion is returned for a snapshot of a newer version of norn.
	ErrVersion = errors.New("snapshot of the register was written by a newer version of norn")
	// ErrNone is returned when there is no snapshot where one is looked for.
	ErrNone = errors.New("no snapshot of a register")
	// ErrSeveral is returned when snapshots of several clusters are in one place
	// and none of them is named.
	ErrSeveral = errors.New("snapshots of several clusters")
)

const (
	magic = "norn-register-snapshot "
	// Format is the version that this build writes.
	Format = 1
	// maxHeader bounds the header: a node's name is its longest member.
	maxHeader = 4 << 10
	// maxState bounds the register in bytes, uncompressed: what its own limits
	// allow is a little less, and unpacking must end somewhere.
	maxState = 1 << 30
	ext      = ".snapshot"
	taken    = ".restored"
	stamp    = "20060102T150405Z"
)

// Header is what a snapshot says of itself.
type Header struct {
	// Cluster is the UUID as text.
	Cluster    string    `json:"cluster"`
	Generation uint64    `json:"generation"`
	Revision   uint64    `json:"revision"`
	TakenAt    time.Time `json:"taken_at"`
	// Node has written it.
	Node string `json:"node"`
	// StateBytes is the size of the register, uncompressed.
	StateBytes int `json:"state_bytes"`
}

// Snapshot is one that was read.
type Snapshot struct {
	Header
	State register.State
}

// Encode writes a snapshot of a state.
func Encode(s *register.State, at time.Time, node string) (Header, []byte, error) {
	var w wire.Writer
	register.AppendState(&w, s)
	return pack(w.B, s, at, node)
}

// Pack writes a snapshot of a state in bytes (register.AppendState), as a server
// sends it.
func Pack(state []byte, at time.Time, node string) (Header, []byte, error) {
	s, err := decodeState(state)
	if err != nil {
		return Header{}, nil, err
	}
	return pack(state, &s, at, node)
}

func pack(state []byte, s *register.State, at time.Time, node string) (Header, []byte, error) {
	h := Header{Cluster: s.Cluster.ID.String(), Generation: s.Generation, Revision: s.Revision, TakenAt: at.Round(0).UTC().Truncate(time.Second), Node: node, StateBytes: len(state)}
	line, err := json.Marshal(h)
	if err != nil {
		return h, nil, fmt.Errorf("snapshot: %w", err)
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return h, nil, fmt.Errorf("snapshot: %w", err)
	}
	b := fmt.Appendf(nil, "%s%d\n%s\n", magic, Format, line)
	b = z.EncodeAll(state, b)
	if err := z.Close(); err != nil {
		return h, nil, fmt.Errorf("snapshot: %w", err)
	}
	sum := sha256.Sum256(b)
	return h, append(b, sum[:]...), nil
}

// Decode reads a snapshot and checks all of it. It returns ErrDamaged or
// ErrVersion.
func Decode(b []byte) (Snapshot, error) {
	damaged := func(what string) (Snapshot, error) { return Snapshot{}, fmt.Errorf("%w: %s", ErrDamaged, what) }
	first, _, found := bytes.Cut(b[:min(len(b), 64)], []byte("\n"))
	if !found || !bytes.HasPrefix(first, []byte(magic)) {
		return damaged("it does not begin like one")
	}
	rest := b[len(first)+1:]
	version, err := strconv.Atoi(string(first[len(magic):]))
	if err != nil || version < 1 {
		return damaged("it has no version")
	}
	if version > Format {
		return Snapshot{}, fmt.Errorf("%w: format %d, this build reads up to %d", ErrVersion, version, Format)
	}
	if len(rest) < sha256.Size {
		return damaged("it is cut off")
	}
	if sum := sha256.Sum256(b[:len(b)-sha256.Size]); !bytes.Equal(sum[:], b[len(b)-sha256.Size:]) {
		return damaged("its checksum is another")
	}
	line, packed, found := bytes.Cut(rest[:len(rest)-sha256.Size], []byte("\n"))
	var s Snapshot
	if !found || len(line) > maxHeader || json.Unmarshal(line, &s.Header) != nil || s.StateBytes < 0 || s.StateBytes > maxState {
		return damaged("its header")
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxState), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return Snapshot{}, fmt.Errorf("snapshot: %w", err)
	}
	defer z.Close()
	state, err := z.DecodeAll(packed, nil)
	if err != nil || len(state) != s.StateBytes {
		return damaged("its state cannot be unpacked")
	}
	if s.State, err = decodeState(state); err != nil {
		return Snapshot{}, err
	}
	if s.State.Cluster.ID.String() != s.Cluster || s.State.Generation != s.Generation || s.State.Revision != s.Revision {
		return damaged("its header is of another state")
	}
	return s, nil
}

// decodeState reads a state whose checksum was right: what cannot be read was
// written by a newer build.
func decodeState(b []byte) (register.State, error) {
	r := wire.NewReader(b)
	s := register.ReadState(r)
	if err := r.End(); err != nil || s.Cluster.Partitions == 0 {
		return register.State{}, fmt.Errorf("%w: its state cannot be read", ErrVersion)
	}
	return s, nil
}

// Ref is what the name of a snapshot says.
type Ref struct {
	Cluster              string // UUID as text
	Generation, Revision uint64
	TakenAt              time.Time
}

// Name is the name of the object for a snapshot.
func (h *Header) Name() string {
	return fmt.Sprintf("norn-%s-g%010d-r%020d-%s%s", h.Cluster, h.Generation, h.Revision, h.TakenAt.UTC().Format(stamp), ext)
}

func takenName(cluster string, generation uint64) string {
	return fmt.Sprintf("norn-%s-g%010d%s", cluster, generation, taken)
}

var names = regexp.MustCompile(`^norn-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-g(\d{10})(?:-r(\d{20})-(\d{8}T\d{6}Z)\.snapshot|\.restored)$`)

// ParseName reads the name of a snapshot; ok is false for anything else.
func ParseName(name string) (r Ref, ok bool) {
	r, ok = parse(name)
	return r, ok && !r.TakenAt.IsZero()
}

// parse reads the names of snapshots and of what Begin creates; those have no
// time.
func parse(name string) (r Ref, ok bool) {
	m := names.FindStringSubmatch(name)
	if m == nil {
		return r, false
	}
	r.Cluster = m[1]
	var bad error
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		bad = errors.Join(bad, err)
		return n
	}
	r.Generation = number(m[2])
	if m[3] != "" {
		r.Revision = number(m[3])
		var err error
		r.TakenAt, err = time.Parse(stamp, m[4])
		bad = errors.Join(bad, err)
	}
	return r, bad == nil
}
