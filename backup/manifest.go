package backup

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
)

// Format is the newest format that this build reads and writes.
const Format = 1

// ManifestEnd ends the name of the object with the manifest of a backup.
const ManifestEnd = ".tasks"

// MaxDepth bounds how many incremental backups follow a full one.
const MaxDepth = 1000

const (
	manifestMagic = "norn-tasks-manifest 1"
	manifestLines = 3
)

// Scopes of a backup.
const (
	// All keeps every task as it is.
	All = "all"
	// Unfinished keeps of a task that is finished only that it is, and how it ended.
	Unfinished = "unfinished"
)

// Manifest is what a backup is.
type Manifest struct {
	Format     int       `json:"format"`
	Name       string    `json:"name"`
	Cluster    string    `json:"cluster"`    // UUID
	Generation uint64    `json:"generation"` // of the register
	Snapshot   string    `json:"snapshot"`   // object with the register; empty: none
	Partitions int       `json:"partitions"`
	Began      time.Time `json:"began_at"`
	Ended      time.Time `json:"ended_at"`
	By         string    `json:"by"` // build that wrote it
	Scope      string    `json:"scope"`
	Queues     []string  `json:"queues"` // only these; empty: all
	// Encrypted says to whom, public keys of age; empty: it is not.
	Encrypted []string `json:"encrypted_to"`

	// Since is the backup that this one is incremental to, and SinceSum the checksum of its
	// manifest; empty: it is a full one. Depth is how many are before it.
	Since    string `json:"since,omitempty"`
	SinceSum string `json:"since_sha256,omitempty"`
	Depth    int    `json:"depth,omitempty"`

	// Each is the partitions in order, Parts the parts in order.
	Each  []Partition `json:"each_partition"`
	Parts []Part      `json:"parts"`

	Summary

	checksum string // of the object
}

// Checksum is that of the object that the manifest was read from.
func (m *Manifest) Checksum() string { return m.checksum }

// Partition says what a partition was when it was read.
type Partition struct {
	Partition int       `json:"partition"`
	Epoch     uint64    `json:"epoch"`
	Cohort    int       `json:"cohort"`
	Replicas  int       `json:"replicas"` // of those, how many each page was read from, at least
	Began     time.Time `json:"began_at"` // what a majority had acknowledged before is in it
	Tasks     uint64    `json:"tasks"`
	Facts     uint64    `json:"facts"`
	Root      string    `json:"root"` // sum over the facts that are in the backup, hexadecimal
	// Ranges is all ranges of the partition ([DecodeRanges]), also those that an incremental
	// backup has not read again. Changed is the spans that it has ([DecodeSpans]).
	Ranges  []byte `json:"ranges"`
	Changed []byte `json:"changed,omitempty"`
}

// Summary is what a backup has. The zero value has nothing.
type Summary struct {
	Tasks uint64 `json:"tasks"`
	Facts uint64 `json:"facts"`
	Raw   uint64 `json:"raw_bytes"`
	// Root is the sum over all facts, hexadecimal: it does not depend on partitions.
	// It is filled in by [Summary.Total].
	Root string `json:"root"`
	// Queues has how many tasks of each queue are in which state. Those of which only
	// the end is kept have no queue.
	Counts map[string]map[string]uint64 `json:"counts"`
	// Held is how many claims were held, MaxEnd when the last of them ends.
	Held   uint64     `json:"held_claims"`
	MaxEnd *time.Time `json:"last_claim_ends_at"`
	// MaxToken is the highest token that some fact or claim names.
	MaxToken uint64 `json:"max_token"`

	sum crdt.Sum
}

// Add counts a task. at is when the backup was taken, for what is put off. It returns
// ErrDamaged when the facts are not those of a task.
func (s *Summary) Add(t *Task, at time.Time) error {
	seen, err := See(t)
	if err == nil {
		s.AddSeen(&seen, at)
	}
	return err
}

// AddSeen is Add of a task that was looked at.
func (s *Summary) AddSeen(t *Seen, at time.Time) {
	if len(t.Facts) == 0 { // of an incremental backup: a claim of a task that has not changed
		s.Tasks++
		s.claims(t.Task)
		return
	}
	queue, _ := t.queue()
	if s.Counts == nil {
		s.Counts = make(map[string]map[string]uint64)
	}
	states := s.Counts[string(queue)]
	if states == nil {
		states = make(map[string]uint64)
		s.Counts[string(queue)] = states
	}
	states[StateName(t.state(at))]++
	s.Tasks++
	s.Facts += uint64(len(t.Facts))
	s.Raw += uint64(t.Size())
	s.sum, s.Root = s.sum.Add(t.Sum), ""
	for i := range t.Facts {
		s.MaxToken = max(s.MaxToken, tokenOf(&t.Facts[i]))
	}
	s.claims(t.Task)
}

// Total fills in the root, after the last task.
func (s *Summary) Total() *Summary {
	s.Root = cmp.Or(s.Root, Root(s.sum))
	return s
}

// claims counts those of a task.
func (s *Summary) claims(t *Task) {
	for _, c := range t.Claims {
		s.Held++
		s.MaxToken = max(s.MaxToken, c.Token)
		if end := time.Unix(0, c.End).UTC(); s.MaxEnd == nil || end.After(*s.MaxEnd) {
			s.MaxEnd = &end
		}
	}
}

// held is a [crdt.ClaimView].
type held bool

func (h held) Held(clock.Time) bool { return bool(h) }

// tokenOf is the token that a fact names, 0 for none.
func tokenOf(f *crdt.Fact) uint64 {
	switch f.Key.Kind {
	case crdt.KindUpdate, crdt.KindCompleted, crdt.KindFailed, crdt.KindExpired:
		return f.Key.A
	}
	return 0
}

// Root is the text of a sum.
func Root(s crdt.Sum) string { return fmt.Sprintf("%016x%016x", s[0], s[1]) }

// StateName is the name of a state, as the command line has it.
func StateName(s crdt.State) string {
	switch s {
	case crdt.StateWaiting:
		return "waiting"
	case crdt.StateScheduled:
		return "scheduled"
	case crdt.StateReady:
		return "ready"
	case crdt.StateClaimed:
		return "claimed"
	case crdt.StateCompleted:
		return "completed"
	case crdt.StateDead:
		return "dead"
	case crdt.StateCancelled:
		return "cancelled"
	}
	return "unknown"
}

// Same tells whether two say the same.
func (s *Summary) Same(o *Summary) bool {
	return s.Tasks == o.Tasks && s.Facts == o.Facts && s.Total().Root == o.Total().Root && s.Held == o.Held && s.MaxToken == o.MaxToken &&
		maps.EqualFunc(s.Counts, o.Counts, maps.Equal[map[string]uint64])
}

// Name makes the name of a backup.
func Name(cluster string, generation uint64, at time.Time) string {
	return fmt.Sprintf("norn-%s-g%d-%s", cluster, generation, at.UTC().Format("20060102T150405Z"))
}

// Encode gives the object with the manifest.
func (m *Manifest) Encode() ([]byte, error) {
	m.Total()
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	b := fmt.Appendf(nil, "%s\n%s\n", manifestMagic, line)
	return fmt.Appendf(b, "%s\n", hashOf(b)), nil
}

// DecodeNote reads a manifest that need not be complete: a note of a backup under way. Errors
// as [DecodeManifest].
func DecodeNote(name string, b []byte) (*Manifest, error) { return decode(name, b) }

// DecodeNotes reads notes of partitions that are done, one behind the other. Errors as [DecodeManifest].
func DecodeNotes(name string, b []byte) (all []*Manifest, err error) {
	for len(b) > 0 || len(all) == 0 {
		end := 0
		for range manifestLines {
			n := bytes.IndexByte(b[end:], '\n')
			if n < 0 {
				end = len(b)
				break
			}
			end += n + 1
		}
		m, err := decode(name, b[:end])
		if err != nil {
			return nil, err
		}
		all, b = append(all, m), b[end:]
	}
	return all, nil
}

// DecodeManifest is the inverse of [Manifest.Encode]. name is that of its object, which is
// named in what is wrong: ErrDamaged, or ErrNewer.
func DecodeManifest(name string, b []byte) (*Manifest, error) {
	m, err := decode(name, b)
	if err == nil {
		err = m.check(name)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func decode(name string, b []byte) (*Manifest, error) {
	fail := func(kind error, format string, args ...any) (*Manifest, error) {
		return nil, fmt.Errorf("%w: %s: %s", kind, name, fmt.Sprintf(format, args...))
	}
	lines := bytes.Split(b, []byte("\n"))
	switch magic := string(lines[0]); {
	case magic != manifestMagic && strings.HasPrefix(magic, "norn-tasks-manifest ") && len(magic) < 64:
		return fail(ErrNewer, "%q; read it with the build that wrote it, or a newer one", magic)
	case magic != manifestMagic:
		return fail(ErrDamaged, "it does not begin as a manifest does")
	case len(lines) != manifestLines+1 || len(lines[3]) != 0 || len(lines[2]) != hex.EncodedLen(32):
		return fail(ErrDamaged, "it is cut short, or more than a manifest")
	case hashOf(b[:len(b)-len(lines[2])-1]) != string(lines[2]):
		return fail(ErrDamaged, "its checksum does not fit")
	}
	m := &Manifest{}
	if err := json.Unmarshal(lines[1], m); err != nil {
		return fail(ErrDamaged, "%v", err)
	}
	m.checksum = string(lines[2])
	if m.Format > Format {
		return fail(ErrNewer, "format %d; this build reads up to %d", m.Format, Format)
	}
	return m, nil
}

// check returns ErrDamaged when what the manifest says does not fit together.
func (m *Manifest) check(name string) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrDamaged, name, fmt.Sprintf(format, args...))
	}
	if m.Name+ManifestEnd != name {
		return bad("it is the manifest of backup %s", m.Name)
	}
	if len(m.Each) != m.Partitions {
		return bad("%d partitions of %d", len(m.Each), m.Partitions)
	}
	tasks, facts := make([]uint64, m.Partitions), make([]uint64, m.Partitions)
	partition, number := 0, 0
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Partition != partition {
			partition, number = p.Partition, 0
		}
		if p.Partition < 0 || p.Partition >= m.Partitions || i > 0 && p.Partition < m.Parts[i-1].Partition || p.Number != number || !strings.HasPrefix(p.Name, partPrefix(m.Name, p.Partition, p.Number)) || !strings.HasSuffix(p.Name, PartEnd) || strings.ContainsAny(p.Name, `/\\`) {
			return bad("part %d, %s, is out of order", i, p.Name)
		}
		number++
		tasks[p.Partition] += p.Tasks
		facts[p.Partition] += p.Facts
	}
	var n, f uint64
	for i := range m.Each {
		if p := &m.Each[i]; p.Partition != i || p.Tasks != tasks[i] || p.Facts != facts[i] {
			return bad("partition %d has %d tasks and its parts %d", i, p.Tasks, tasks[i])
		}
		n, f = n+tasks[i], f+facts[i]
	}
	if (m.Since == "") != (m.Depth == 0) || m.Depth > MaxDepth {
		return bad("it is number %d of a chain, and incremental to %q", m.Depth, m.Since)
	}
	if n != m.Tasks || f != m.Facts {
		return bad("its parts have %d tasks, not %d", n, m.Tasks)
	}
	return nil
}

// Join puts what another part of the backup has into s. ErrDamaged: its root is none.
func (s *Summary) Join(o *Summary) error {
	sum, err := parseRoot(o)
	if err != nil {
		return err
	}
	s.sum = s.sum.Add(sum)
	s.Tasks, s.Facts, s.Raw, s.Held, s.Root = s.Tasks+o.Tasks, s.Facts+o.Facts, s.Raw+o.Raw, s.Held+o.Held, Root(s.sum)
	s.MaxToken = max(s.MaxToken, o.MaxToken)
	if o.MaxEnd != nil && (s.MaxEnd == nil || o.MaxEnd.After(*s.MaxEnd)) {
		s.MaxEnd = o.MaxEnd
	}
	if s.Counts == nil {
		s.Counts = make(map[string]map[string]uint64)
	}
	for queue, states := range o.Counts { // Any order: each is added.
		if s.Counts[queue] == nil {
			s.Counts[queue] = make(map[string]uint64)
		}
		for state, n := range states { // Any order: as above.
			s.Counts[queue][state] += n
		}
	}
	return nil
}

func parseRoot(s *Summary) (sum crdt.Sum, err error) {
	if s.Root == "" {
		return s.sum, nil
	}
	if n, err := fmt.Sscanf(s.Root, "%016x%016x", &sum[0], &sum[1]); err != nil || n != 2 || Root(sum) != s.Root {
		return sum, fmt.Errorf("%w: %q is no root", ErrDamaged, s.Root)
	}
	return sum, nil
}
