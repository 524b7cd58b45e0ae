package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

const (
	// PartBytes is about how much is in a part, unpacked. What reads or writes a backup holds
	// a few of them.
	PartBytes = 8 << 20
	// maxPart bounds a part unpacked: the largest log of one task with its payload is less.
	maxPart = 400 << 20

	partMagic = "norn-tasks-part "
	packed    = "zstd"
	encrypted = "zstd+age"
)

// Header says where a part belongs.
type Header struct {
	Backup    string `json:"backup"`
	Partition int    `json:"partition"`
	Number    int    `json:"number"` // within the partition, from 0
}

// Part is what the manifest says of a part.
type Part struct {
	Name      string `json:"name"` // of the object
	Partition int    `json:"partition"`
	Number    int    `json:"number"`
	Bytes     int64  `json:"bytes"`  // as it is stored
	SHA256    string `json:"sha256"` // over those
	Raw       int64  `json:"raw_bytes"`
	Tasks     uint64 `json:"tasks"`
	Facts     uint64 `json:"facts"`
	First     string `json:"first_id"`
	Last      string `json:"last_id"`
}

// PartEnd ends the names of parts.
const PartEnd = ".part"

// partName is the name of the object that has a part. The taker is in it, so that two that go
// on with one backup do not write over each other's parts.
func partName(backup string, partition, number int, taker string) string {
	return partPrefix(backup, partition, number) + taker + PartEnd
}

func partPrefix(backup string, partition, number int) string {
	return fmt.Sprintf("%s.p%04d-%05d-", backup, partition, number)
}

// Seal turns the packed body of a part into what is stored, and back: encryption. nil: it
// is stored as it is.
type Seal func([]byte) ([]byte, error)

// NewPacker makes what packs the bodies of parts, of so many at a time. It holds tables of some MiB
// for each: who makes many parts makes one.
func NewPacker(together int) *zstd.Encoder {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(together), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		panic(err) // of options that are wrong
	}
	return zip
}

// NewUnpacker makes what undoes it.
func NewUnpacker(together int) *zstd.Decoder {
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(together), zstd.WithDecoderMaxMemory(maxPart))
	if err != nil {
		panic(err) // of options that are wrong
	}
	return unzip
}

// Writer gathers the tasks of one partition into parts. It is made with [NewWriter].
type Writer struct {
	header Header
	taker  string
	seal   Seal
	zip    *zstd.Encoder
	raw    []byte // the header and then the tasks
	head   int    // length of the header
	out    []byte // the part before
	part   Part
	first  id.ID
	last   id.ID
}

// NewWriter makes the writer of a backup, before [Writer.Begin]. zip is of [NewPacker].
func NewWriter(backup string, seal Seal, zip *zstd.Encoder) *Writer {
	return &Writer{header: Header{Backup: backup}, seal: seal, zip: zip}
}

// Begin begins a partition: what was added and is in no part is gone. The taker is some letters and
// digits that nobody else has.
func (w *Writer) Begin(partition int, taker string) {
	w.header.Partition, w.header.Number, w.taker, w.part = partition, 0, taker, Part{}
	if cap(w.raw)+cap(w.out) > 4*PartBytes { // one task was as large
		w.raw, w.out = nil, nil
	}
}

// MoveTo goes on with the buffers of another writer, which is large already, and gives that one.
func (w *Writer) MoveTo(other *Writer) *Writer {
	raw, out := append(other.raw[:0], w.raw...), other.out
	*other = *w
	other.raw, other.out = raw, out
	w.part = Part{}
	return other
}

// Add adds a task, which has to come after those before. full says that it is time for
// [Writer.Part].
func (w *Writer) Add(t *Task) (full bool) {
	if w.part.Tasks == 0 {
		head, _ := json.Marshal(w.header) // it has a name and numbers: cannot fail
		w.raw = append(append(w.raw[:0], head...), '\n')
		w.first, w.head = t.ID, len(w.raw)
	}
	w.last = t.ID
	w.part.Tasks++
	w.part.Facts += uint64(len(t.Facts))
	w.raw = AppendTask(w.raw, t)
	return len(w.raw) >= PartBytes
}

// Part gives what was added since the last one as a part, and false where that is nothing. The bytes are
// valid until the next one.
func (w *Writer) Part() (p Part, b []byte, ok bool, err error) {
	if w.part.Tasks == 0 {
		return p, nil, false, nil
	}
	b = append(w.out[:0], partMagic...)
	if w.seal == nil {
		b = w.zip.EncodeAll(w.raw, append(b, "1 "+packed+"\n"...))
	} else {
		body, err := w.seal(w.zip.EncodeAll(w.raw, nil))
		if err != nil {
			return p, nil, false, err
		}
		b = append(append(b, "1 "+encrypted+"\n"...), body...)
	}
	h := sha256.New()
	h.Write(b)
	b = h.Sum(b)
	h.Write(b[len(b)-sha256.Size:])
	p = w.part
	p.First, p.Last = w.first.String(), w.last.String()
	p.Name, p.Partition, p.Number = partName(w.header.Backup, w.header.Partition, w.header.Number, w.taker), w.header.Partition, w.header.Number
	p.Bytes, p.SHA256, p.Raw = int64(len(b)), hex.EncodeToString(h.Sum(nil)), int64(len(w.raw)-w.head)
	w.header.Number++
	w.out, w.part = b, Part{}
	return p, b, true, nil
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ErrSealed is returned for a part that is encrypted, without a key.
var ErrSealed = errors.New("backup: encrypted")

// OpenPart reads a part that has to be what the manifest of a backup says, and gives its
// tasks in the form of [Tasks]. open undoes the [Seal] of an encrypted one, unzip is of
// [NewUnpacker]. ErrDamaged says what is wrong, ErrNewer that another build wrote it, ErrSealed
// that it takes a key.
func OpenPart(backup string, p *Part, b []byte, open Seal, unzip *zstd.Decoder) ([]byte, error) {
	fail := func(kind error, format string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("%w: %s: %s", kind, p.Name, fmt.Sprintf(format, args...))
	}
	line, body, found := bytes.Cut(b, []byte("\n"))
	magic, is := strings.CutPrefix(string(line[:min(len(line), 64+1)]), partMagic)
	version, kind, _ := strings.Cut(magic, " ")
	own, whole := sums(b)
	switch {
	case !found || !is || len(line) > 64:
		return fail(ErrDamaged, "it does not begin as a part does")
	case version != "1" || kind != packed && kind != encrypted:
		return fail(ErrNewer, "%q; read it with the build that wrote it, or a newer one", line)
	case int64(len(b)) != p.Bytes:
		return fail(ErrDamaged, "it has %d bytes, and %d were written", len(b), p.Bytes)
	case whole != p.SHA256:
		return fail(ErrDamaged, "its SHA-256 is %s, and %s was written", whole, p.SHA256)
	case len(body) < sha256.Size:
		return fail(ErrDamaged, "it is cut short")
	case !bytes.Equal(own, b[len(b)-sha256.Size:]):
		return fail(ErrDamaged, "its own checksum does not fit")
	}
	body = body[:len(body)-sha256.Size]
	if kind == encrypted {
		if open == nil {
			return fail(ErrSealed, "give the key file (--key-file)")
		}
		var err error
		if body, err = open(body); err != nil {
			return fail(ErrSealed, "%v", err)
		}
	}
	raw, err := unzip.DecodeAll(body, nil)
	if err != nil {
		return fail(ErrDamaged, "%v", err)
	}
	head, tasks, _ := bytes.Cut(raw, []byte("\n"))
	var h Header
	if err := json.Unmarshal(head, &h); err != nil {
		return fail(ErrDamaged, "its header: %v", err)
	}
	if want := (Header{backup, p.Partition, p.Number}); h != want {
		return fail(ErrDamaged, "it is part %d of partition %d of backup %s, and not part %d of partition %d of %s", h.Number, h.Partition, h.Backup, want.Number, want.Partition, want.Backup)
	}
	return tasks, nil
}

// sums gives the SHA-256 over all bytes but the checksum that a part ends with, and the hexadecimal one
// over all of them, in one pass.
func sums(b []byte) (own []byte, whole string) {
	h, end := sha256.New(), max(0, len(b)-sha256.Size)
	h.Write(b[:end])
	own = h.Sum(nil)
	h.Write(b[end:])
	return own, hex.EncodeToString(h.Sum(nil))
}

// ReadPart looks at the tasks of a part that [OpenPart] gave, and checks that they are those that the
// manifest says. A task is valid during the call.
func ReadPart(p *Part, tasks []byte, each func(*Seen) error) error {
	return WalkPart(p, tasks, func(t *Task) error {
		seen, err := See(t)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		return each(&seen)
	})
}

// WalkPart is [ReadPart] of a part that was read before: what its tasks are is not looked at.
func WalkPart(p *Part, tasks []byte, each func(*Task) error) error {
	var n, facts uint64
	var first, last id.ID
	for t, err := range Briefly(tasks) {
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		if n == 0 {
			first = t.ID
		}
		n, facts, last = n+1, facts+uint64(len(t.Facts)), t.ID
		if err := each(&t); err != nil {
			return err
		}
	}
	if n != p.Tasks || facts != p.Facts || first.String() != p.First || last.String() != p.Last {
		return fmt.Errorf("%w: %s: it has %d tasks, %s to %s, with %d facts, and %d, %s to %s, with %d were written", ErrDamaged, p.Name, n, first, last, facts, p.Tasks, p.First, p.Last, p.Facts)
	}
	return nil
}

// SumOf is the sum over the facts of a task.
func SumOf(t *Task) (sum crdt.Sum) {
	for _, f := range t.Facts {
		sum = sum.Add(crdt.HashFact(f))
	}
	return sum
}
