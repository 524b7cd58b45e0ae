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

// Writer gathers the tasks of one partition into parts. It is made with [NewWriter].
type Writer struct {
	header Header
	taker  string
	seal   Seal
	raw    []byte
	part   Part
	first  id.ID
	last   id.ID
	zip    *zstd.Encoder
}

// NewWriter makes the writer of a partition of a backup. The taker is some letters and digits
// that nobody else has.
func NewWriter(backup string, partition int, taker string, seal Seal) *Writer {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		panic(err) // of options that are wrong
	}
	return &Writer{header: Header{Backup: backup, Partition: partition}, taker: taker, seal: seal, zip: zip}
}

// Add adds a task, which has to come after those before. full says that it is time for
// [Writer.Part].
func (w *Writer) Add(t *Task) (full bool) {
	if w.part.Tasks == 0 {
		w.first = t.ID
	}
	w.last = t.ID
	w.part.Tasks++
	w.part.Facts += uint64(len(t.Facts))
	w.raw = AppendTask(w.raw, t)
	return len(w.raw) >= PartBytes
}

// Part gives what was added since the last one as a part, and false where that is nothing.
func (w *Writer) Part() (p Part, b []byte, ok bool, err error) {
	if w.part.Tasks == 0 {
		return p, nil, false, nil
	}
	head, err := json.Marshal(w.header)
	if err != nil {
		return p, nil, false, err
	}
	body := w.zip.EncodeAll(append(append(head, '\n'), w.raw...), nil)
	kind := packed
	if w.seal != nil {
		kind = encrypted
		if body, err = w.seal(body); err != nil {
			return p, nil, false, err
		}
	}
	b = append(fmt.Appendf(nil, "%s1 %s\n", partMagic, kind), body...)
	sum := sha256.Sum256(b)
	b = append(b, sum[:]...)
	p = w.part
	p.First, p.Last = w.first.String(), w.last.String()
	p.Name, p.Partition, p.Number = partName(w.header.Backup, w.header.Partition, w.header.Number, w.taker), w.header.Partition, w.header.Number
	p.Bytes, p.SHA256, p.Raw = int64(len(b)), hashOf(b), int64(len(w.raw))
	w.header.Number++
	w.raw, w.part = w.raw[:0], Part{}
	return p, b, true, nil
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ErrSealed is returned for a part that is encrypted, without a key.
var ErrSealed = errors.New("backup: encrypted")

// OpenPart reads a part that has to be what the manifest of a backup says, and gives its
// tasks in the form of [Tasks]. open undoes the [Seal] of an encrypted one. ErrDamaged says
// what is wrong, ErrNewer that another build wrote it, ErrSealed that it takes a key.
func OpenPart(backup string, p *Part, b []byte, open Seal) ([]byte, error) {
	fail := func(kind error, format string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf("%w: %s: %s", kind, p.Name, fmt.Sprintf(format, args...))
	}
	line, body, found := bytes.Cut(b, []byte("\n"))
	magic, is := strings.CutPrefix(string(line), partMagic)
	version, kind, _ := strings.Cut(magic, " ")
	switch {
	case !found || !is || len(line) > 64:
		return fail(ErrDamaged, "it does not begin as a part does")
	case version != "1" || kind != packed && kind != encrypted:
		return fail(ErrNewer, "%q; read it with the build that wrote it, or a newer one", line)
	case int64(len(b)) != p.Bytes:
		return fail(ErrDamaged, "it has %d bytes, and %d were written", len(b), p.Bytes)
	case hashOf(b) != p.SHA256:
		return fail(ErrDamaged, "its SHA-256 is %s, and %s was written", hashOf(b), p.SHA256)
	case len(body) < sha256.Size:
		return fail(ErrDamaged, "it is cut short")
	case sha256.Sum256(b[:len(b)-sha256.Size]) != [32]byte(b[len(b)-sha256.Size:]):
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
	unzip, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPart))
	if err != nil {
		panic(err) // of options that are wrong
	}
	defer unzip.Close()
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

// ReadPart walks the tasks of a part that [OpenPart] gave, checks each, and that they are
// those that the manifest says.
func ReadPart(p *Part, tasks []byte, each func(*Task) error) error {
	var n, facts uint64
	var first, last id.ID
	for t, err := range Tasks(tasks) {
		if err == nil {
			err = t.Check()
		}
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
