package node

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/cespare/xxhash/v2"

	"github.com/norn-dev/norn/store"
)

// superblock is what a node may never forget, beside its stores: who it is, how
// often it has started, and how far its disk was at least (protocol (a) 3). A store
// that has lost the end of its log, or was set back, is behind it; so that is
// noticed though nobody else may know. Promises need no place of their own here:
// the mark is in the batch of each.
type superblock struct {
	FormatVersion int    `json:"format_version"`
	Sequence      uint64 `json:"sequence"` // of two copies the higher one counts
	ClusterID     string `json:"cluster_id"`
	Node          string `json:"node"`
	Incarnation   string `json:"incarnation"`
	Boot          uint64 `json:"boot"` // starts of the directory
	Mark          uint64 `json:"mark"` // what the store of facts had on disk at least
	// Partitions and Replicas are those of the identity, which has no checksum.
	Partitions int `json:"partitions"`
	Replicas   int `json:"replicas"`
	// Stopped is the start that ended as it should: both stores then end with its
	// number, and one without it has lost the end of its log. 0: none did, as far as is known.
	Stopped uint64 `json:"stopped,omitempty"`
}

// superblockFiles are its two copies. They are written in turns, each as a whole,
// so that one is always good; each is a line of JSON and a line with its checksum.
var superblockFiles = [2]string{"SUPERBLOCK-0", "SUPERBLOCK-1"}

// markStep is how far the mark may go on beyond the superblock's: one more sync in
// so many.
const markStep = 1000

// errSuperblock is why a copy does not count.
var errSuperblock = errors.New("its checksum is wrong")

// errNoSuperblock is returned where there is none, not even a damaged one.
var errNoSuperblock = errors.New("there is no superblock")

// superblocks keeps the two copies of a directory.
type superblocks struct {
	data string

	mu   sync.Mutex // guards what follows
	last superblock
	slot int // of the copy that is written next
}

// encode gives the bytes of a copy.
func (s *superblock) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("superblock: %w", err)
	}
	return fmt.Appendf(nil, "%s\n%016x\n", b, xxhash.Sum64(b)), nil
}

// decodeSuperblock reads a copy.
func decodeSuperblock(b []byte) (s superblock, err error) {
	line, sum, found := bytes.Cut(b, []byte("\n"))
	if !found || string(sum) != fmt.Sprintf("%016x\n", xxhash.Sum64(line)) {
		return superblock{}, errSuperblock
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return superblock{}, fmt.Errorf("superblock: %w", err)
	}
	return s, nil
}

// readSuperblock reads both copies. bad names one that was damaged: it is written
// next. Without any it gives errNoSuperblock, and with none that is good an
// ErrDirectory.
func readSuperblock(data string) (s *superblocks, bad string, err error) {
	s = &superblocks{data: data}
	var damage []error
	missing, first := 0, uint64(0)
	for i, name := range superblockFiles {
		b, err := os.ReadFile(filepath.Join(data, name))
		var one superblock
		switch {
		case err == nil:
			one, err = decodeSuperblock(b)
		case errors.Is(err, fs.ErrNotExist):
			missing++
		case !errors.Is(err, syscall.EIO): // that is what a bad sector gives, and the copy is as good as gone
			return nil, "", fmt.Errorf("superblock: %w", err)
		}
		if err != nil {
			damage, bad = append(damage, fmt.Errorf("%s: %w", name, err)), name
		}
		if i == 0 {
			first = one.Sequence // 0 for a bad one
		} else if one.Sequence < first {
			s.slot = 1
		}
		if one.Sequence > s.last.Sequence {
			s.last = one
		}
	}
	switch {
	case missing == len(superblockFiles):
		return nil, "", errNoSuperblock
	case s.last.Sequence == 0:
		return nil, "", fmt.Errorf("%w: both copies of the superblock in %s are damaged, so what this node had promised others cannot be told (%w)", errDamage, data, errors.Join(damage...))
	}
	return s, bad, readable(data, s.last.FormatVersion)
}

// write puts a newer one in the place of the older copy.
func (s *superblocks) write(change func(*superblock)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.last
	change(&next)
	next.FormatVersion, next.Sequence = formatVersion, s.last.Sequence+1
	b, err := next.encode()
	if err == nil {
		err = writeFile(filepath.Join(s.data, superblockFiles[s.slot]), b)
	}
	if err != nil {
		return err
	}
	s.last, s.slot = next, 1-s.slot
	return nil
}

// raise notes that the disk is so far.
func (s *superblocks) raise(mark uint64) error {
	return s.write(func(b *superblock) { b.Mark = max(b.Mark, mark) })
}

// superblockOf opens the superblock of a formatted directory.
func (d *directory) superblockOf(data string, have *identity) error {
	s, bad, err := readSuperblock(data)
	switch {
	case errors.Is(err, errNoSuperblock):
		return fmt.Errorf("%w: both copies of the superblock in %s are gone (%s, %s); damaged is not the same as new", errDamage, data, superblockFiles[0], superblockFiles[1])
	case err != nil:
		return err
	case s.last.ClusterID != have.ClusterID || s.last.Node != have.Node || s.last.Incarnation != have.Incarnation:
		return fmt.Errorf("%w: %s in %s names node %s, incarnation %s, of cluster %s, and its superblock node %s, incarnation %s, of cluster %s; one of them is damaged or of another directory",
			ErrDirectory, identityFile, data, have.Node, have.Incarnation, have.ClusterID, s.last.Node, s.last.Incarnation, s.last.ClusterID)
	case s.last.Partitions != have.Partitions || s.last.Replicas != have.Replicas:
		return fmt.Errorf("%w: %s in %s is damaged: it says %d partitions of %d replicas, and the superblock %d of %d; put that into it",
			ErrDirectory, identityFile, data, have.Partitions, have.Replicas, s.last.Partitions, s.last.Replicas)
	}
	d.super, d.healed = s, bad
	d.setBack = s.last.Boot > d.boot || d.boot > 0 && s.last.Stopped == d.boot && !d.ended()
	return nil
}

// startSuperblock notes this start: twice where a copy was missing or bad.
func (d *directory) startSuperblock(have *identity) error {
	times := 1
	if d.healed != "" || d.super.last.Sequence == 0 {
		times = len(superblockFiles)
	}
	for range times {
		err := d.super.write(func(b *superblock) {
			b.ClusterID, b.Node, b.Incarnation = have.ClusterID, have.Node, have.Incarnation
			b.Partitions, b.Replicas = have.Partitions, have.Replicas
			b.Boot = max(b.Boot, d.boot)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stoppedKey holds the last start that ended as it should, at the end of the log of
// each store. What a log has lost at its end is not noticed otherwise: it looks as
// after a power failure.
var stoppedKey = []byte("!stopped")

// ended tells whether both stores end with this start.
func (d *directory) ended() bool {
	want := binary.BigEndian.AppendUint64(nil, d.boot)
	for _, s := range []store.Store{d.facts, d.register} {
		if b, _ := s.Get(stoppedKey); !bytes.Equal(b, want) {
			return false
		}
	}
	return true
}

// end notes that this start ends as it should. Nothing may be written after it.
func (d *directory) end() error {
	for _, s := range []store.Store{d.facts, d.register} {
		var b store.Batch
		b.Set(stoppedKey, binary.BigEndian.AppendUint64(nil, d.boot))
		s.Commit(&b)()
	}
	return d.super.write(func(b *superblock) { b.Stopped = d.boot })
}

// keep is raise beside the loop.
func (s *superblocks) keep(mark uint64, fatal func(error)) {
	if err := s.raise(mark); err != nil {
		fatal(err)
	}
}

// sayHealed tells of a copy of the superblock that was damaged, and of a directory of the
// format before.
func (d *directory) sayHealed(log *slog.Logger) {
	if d.raised != 0 {
		log.Info("node.format", "before", d.raised, "now", formatVersion, "meaning", "the data directory was written by the version before; it has been brought to this version's format, and that version no longer starts on it")
	}
	if d.healed != "" {
		log.Warn("node.superblock", "file", d.healed, "meaning", "one of the two copies of the superblock was damaged; it has been written anew from the other one; look after this disk")
	}
}
