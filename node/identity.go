package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/store"
)

// formatVersion is the version of the data directory that this build writes. It also reads
// the one before: in 2 the log of a store was Pebble's own, see [raiseFormat].
const formatVersion = 3

// ErrDirectory is returned when a data directory cannot be used as it is.
var ErrDirectory = errors.New("data directory cannot be used")

// identity is what the file IDENTITY says about a data directory.
type identity struct {
	FormatVersion int    `json:"format_version"`
	ClusterID     string `json:"cluster_id"`
	Node          string `json:"node"`
	Incarnation   string `json:"incarnation"`
	// Partitions and Replicas of the cluster.
	Partitions int `json:"partitions"`
	Replicas   int `json:"replicas"`
	// Join is where the others are, in the file OLDLIFE of a directory that has
	// forgotten something.
	Join []string `json:"join,omitempty"`
	// Register is the snapshot, in the directory of those of before, that such a directory
	// goes on from by itself; empty: it joins others.
	Register string `json:"register,omitempty"`
}

// readable refuses a directory of another format.
func (i *identity) readable(data string) error { return readable(data, i.FormatVersion) }

func readable(data string, format int) error {
	which := "a newer version"
	switch {
	case format == formatVersion, format == formatVersion-1:
		return nil
	case format < formatVersion:
		which = "an unreleased version"
	}
	return fmt.Errorf("%w: %s was written by %s of norn (format %d, this build reads %d and %d); start that version", ErrDirectory, data, which, format, formatVersion-1, formatVersion)
}

// raiseFormat says in a directory that its stores are of this build's format, before they are
// opened: from then on the build of before refuses it. Opening a store of format 2 writes what
// Pebble's log has to tables and begins a log of its own.
func raiseFormat(have *identity, path func(string) string) error {
	super, _, err := readSuperblock(filepath.Dir(path(identityFile)))
	if err != nil {
		return nil //nolint:nilerr // superblockOf says what is wrong with it
	}
	if err := super.write(func(*superblock) {}); err != nil {
		return err
	}
	raised := *have
	raised.FormatVersion = formatVersion
	b, err := json.MarshalIndent(raised, "", "  ")
	if err != nil {
		return fmt.Errorf("format: %w", err)
	}
	return writeFile(path(identityFile), append(b, '\n'))
}

const (
	identityFile = "IDENTITY"
	// formattingFile stands while a directory is being formatted. Nothing was
	// acknowledged from it yet, so formatting may start over.
	formattingFile = "FORMATTING"
	// restoring is what is in that file while the directory is made from a snapshot:
	// what was to be a cluster again must not start as a new one.
	restoring = "restoring\n"
	// joiningFile holds the incarnation under which an empty directory asks to be
	// let into a cluster: after a restart it is the same one that asks.
	joiningFile = "JOINING"
	// lockFile is there for the lock of a directory that is in use.
	lockFile    = "LOCK"
	factsDir    = "facts"
	registerDir = "register"
)

// incarnationKey holds the incarnation in both stores: stores of different
// origin must not be mixed (design K4).
var incarnationKey = []byte("!incarnation")

// bootKey counts the starts of the directory, in the register's store: a copy of
// it that is started too is told from the original.
var bootKey = []byte("!boot")

// directory is an opened data directory.
type directory struct {
	facts    *store.Pebble
	register *store.Pebble
	self     register.Member
	cluster  register.Cluster // zero before it has joined
	boot     uint64           // starts, this one included
	restored *restored        // nil: it was not made from a snapshot at this start
	old      *identity        // of a life before, whose facts it joins with; nil: none
	super    *superblocks     // nil before it has joined
	healed   string           // the copy of the superblock that was damaged; empty: none
	raised   int              // the format that it had before this start; 0: this build's
	setBack  bool             // the superblock knows of a later start than the register's store, or of a log's end that is not there
	lock     io.Closer        // of the directory; nil while it is opened
	making   string           // what the note says while it is formatted
}

// joins tells whether the directory waits to be let into a cluster; then it has
// no stores yet.
func (d *directory) joins() bool { return d.facts == nil }

type openStore func(dir string) (*store.Pebble, error)

// openDirectory opens a data directory and formats an empty one: a first start
// makes a cluster of one, or waits to be let into another one.
// how is how it is restored from a snapshot, where the configuration says so.
func openDirectory(ctx context.Context, cfg *config.Config, how *asking, open openStore) (*directory, error) {
	if err := os.MkdirAll(cfg.Data, 0o770); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// Before there are stores, whose own locks would be deleted with them: of two
	// first starts the second one would format it anew under the first.
	lock, err := store.LockDirectory(cfg.Data)
	if err != nil {
		return nil, err
	}
	d, err := openLocked(ctx, cfg, how, open)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	d.lock = lock
	return d, nil
}

// openLocked is openDirectory of one that this process has.
func openLocked(ctx context.Context, cfg *config.Config, how *asking, open openStore) (*directory, error) {
	path := func(name string) string { return filepath.Join(cfg.Data, name) }
	if err := setLeftAside(cfg); err != nil {
		return nil, err
	}
	old, err := readOldLife(path)
	switch {
	case err != nil:
		return nil, err
	case old != nil && entered(path, old):
		if err := endOldLife(cfg.Data); err != nil {
			return nil, err
		}
	case old != nil && old.Register != "":
		return openBegunAgain(ctx, cfg, old, open)
	case old != nil:
		return openOldLife(cfg, old, path)
	}
	_, formatting := os.Stat(path(formattingFile))
	b, err := os.ReadFile(path(identityFile))
	switch {
	case err == nil && formatting != nil:
		return openFormatted(cfg, b, path, open)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("data directory: %w", err)
	case formatting != nil && holds(path):
		return nil, fmt.Errorf("%w: %s holds data but its file %s is gone; damaged is not the same as new", errDamage, cfg.Data, identityFile)
	}
	if cfg.ForceNewRegister != "" { // a path that is wrong must not become a new cluster, or a joiner
		return nil, noRegister(cfg)
	}
	if len(cfg.Join) > 0 {
		return openJoining(cfg, path)
	}
	if cfg.RestoreFrom != "" {
		return restore(ctx, cfg, how, open)
	}
	if b, _ := os.ReadFile(path(formattingFile)); string(b) == restoring {
		return nil, fmt.Errorf("%w: a restore into %s was cut short, and would start as a new cluster without anything in it: repeat it (norn backup restore, or restore-from), or remove the directory to start empty; nothing in it counts", ErrDirectory, cfg.Data)
	}
	if exists(path(joiningFile)) {
		return nil, fmt.Errorf("%w: %s waits to be let into a cluster, and without --join it would begin one of its own; start it with --join, or delete %s if a new cluster is meant", ErrDirectory, cfg.Data, path(joiningFile))
	}
	cluster := newCluster(cfg)
	d := &directory{self: register.Member{Node: cfg.Name}, cluster: cluster}
	_, _ = rand.Read(d.self.Incarnation[:])
	err = d.format(cfg, open, func() error {
		return raftnode.Format(d.register, cluster, record(cfg, d.self, cfg.PeerListen))
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// openJoining opens a directory that is in no cluster yet.
func openJoining(cfg *config.Config, path func(string) string) (*directory, error) {
	d := &directory{self: register.Member{Node: cfg.Name}, boot: 1} // as it will be
	b, err := os.ReadFile(path(joiningFile))
	if err == nil && len(b) == hex.EncodedLen(len(d.self.Incarnation)) {
		if _, err = hex.Decode(d.self.Incarnation[:], b); err == nil {
			return d, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	_, _ = rand.Read(d.self.Incarnation[:])
	return d, writeFile(path(joiningFile), []byte(d.self.Incarnation.String()))
}

// enter formats a directory that was let into a cluster.
func (d *directory) enter(cfg *config.Config, cluster register.Cluster, open openStore) error {
	if err := d.mayEnter(&cluster); err != nil {
		return err
	}
	d.cluster = cluster
	err := d.format(cfg, open, func() error { return raftnode.Join(d.register, cluster.ID, d.self) })
	if err == nil {
		err = endOldLife(cfg.Data)
	}
	return err
}

// StoreDir is a store of a data directory.
type StoreDir struct{ Name, Dir string }

// Stores gives the stores of a formatted data directory.
func Stores(data string) ([]StoreDir, error) {
	if !Formatted(data) {
		return nil, fmt.Errorf("%w: %s is no data directory of a node: it has no %s", ErrDirectory, data, identityFile)
	}
	return []StoreDir{{factsDir, filepath.Join(data, factsDir)}, {registerDir, filepath.Join(data, registerDir)}}, nil
}

// FormatOf gives the format of a data directory, and the one that this build writes. The
// error is ErrDirectory for one that it cannot read.
func FormatOf(data string) (has, writes int, err error) {
	super, _, err := readSuperblock(data)
	if err != nil {
		return 0, formatVersion, err
	}
	return super.last.FormatVersion, formatVersion, nil
}

// Formatted tells whether a directory belongs to a node already, and is not that of a first
// start.
func Formatted(data string) bool {
	return exists(filepath.Join(data, identityFile)) || exists(filepath.Join(data, oldLifeFile))
}

// holds tells whether something of a formatted directory is there: what it promised may be
// known to the register's store alone, or to a superblock.
func holds(path func(string) string) bool {
	return slices.ContainsFunc([]string{factsDir, registerDir, superblockFiles[0], superblockFiles[1]}, func(name string) bool { return exists(path(name)) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func openFormatted(cfg *config.Config, b []byte, path func(string) string, open openStore) (*directory, error) {
	var have identity
	if err := json.Unmarshal(b, &have); err != nil {
		return nil, fmt.Errorf("%w: %s is damaged: %w", errDamage, path(identityFile), err)
	}
	if err := have.readable(cfg.Data); err != nil {
		return nil, err
	}
	if have.Node != cfg.Name {
		return nil, fmt.Errorf("%w: %s belongs to node %q, not %q; start with --name %s or with another --data", ErrDirectory, cfg.Data, have.Node, cfg.Name, have.Node)
	}
	d := &directory{}
	var err error
	if have.FormatVersion < formatVersion {
		if err := raiseFormat(&have, path); err != nil {
			return nil, err
		}
		d.raised = have.FormatVersion
	}
	if d.facts, err = open(path(factsDir)); err != nil {
		return nil, err
	}
	if d.register, err = open(path(registerDir)); err != nil {
		return nil, errors.Join(err, d.facts.Close())
	}
	for name, s := range map[string]store.Store{factsDir: d.facts, registerDir: d.register} {
		stored, ok := s.Get(incarnationKey)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%w: the store %s in %s is empty, or has lost its beginning; damaged is not the same as new", errDamage, name, cfg.Data), d.close())
		}
		if fmt.Sprintf("%x", stored) != have.Incarnation {
			return nil, errors.Join(fmt.Errorf("%w: the store %s in %s is of incarnation %x, the directory of %s; stores of different origin must not be mixed", ErrDirectory, name, cfg.Data, stored, have.Incarnation), d.close())
		}
		copy(d.self.Incarnation[:], stored)
	}
	d.self.Node = have.Node
	id, err := hex.DecodeString(strings.ReplaceAll(have.ClusterID, "-", ""))
	if err != nil || len(id) != len(d.cluster.ID) || have.Partitions <= 0 {
		return nil, errors.Join(fmt.Errorf("%w: %s in %s is damaged: it does not say which cluster it is of, and of how many partitions; the superblock beside it does", ErrDirectory, identityFile, cfg.Data), d.close())
	}
	d.cluster = register.Cluster{ID: register.UUID(id), Partitions: have.Partitions, Replicas: have.Replicas}
	d.boot = d.starts()
	if err := d.superblockOf(cfg.Data, &have); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.count()
	if err := d.startSuperblock(&have); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// starts is how often the directory was started, as its register's store knows.
func (d *directory) starts() uint64 {
	if old, ok := d.register.Get(bootKey); ok && len(old) == 8 {
		return binary.BigEndian.Uint64(old)
	}
	return 0
}

// count notes this start.
func (d *directory) count() {
	d.boot = d.starts() + 1
	var b store.Batch
	b.Set(bootKey, binary.BigEndian.AppendUint64(nil, d.boot))
	d.register.Commit(&b)()
}

// record is this node as the cluster is to know it. at is where its peer port
// listens.
func record(cfg *config.Config, self register.Member, at string) register.Node {
	return register.Node{Member: self, Addresses: []string{cmp.Or(cfg.PeerAdvertise, at)}, Zone: cfg.Zone, Weight: uint32(cfg.Weight)}
}

// format makes a new directory; one of a life before keeps its facts. The
// identity file comes last: until it is there, nothing in the directory counts.
func (d *directory) format(cfg *config.Config, open openStore, register func() error) error {
	path := func(name string) string { return filepath.Join(cfg.Data, name) }
	if err := writeFile(path(formattingFile), []byte(d.making)); err != nil {
		return err
	}
	for _, dir := range []string{factsDir, registerDir} {
		if dir == factsDir && d.old != nil {
			continue
		}
		if err := os.RemoveAll(path(dir)); err != nil {
			return fmt.Errorf("format: %w", err)
		}
	}
	var err error
	if d.facts, err = open(path(factsDir)); err != nil {
		return err
	}
	if d.register, err = open(path(registerDir)); err != nil {
		return errors.Join(err, d.facts.Close())
	}
	for _, s := range []store.Store{d.facts, d.register} {
		var b store.Batch
		b.Set(incarnationKey, d.self.Incarnation[:])
		s.Commit(&b)()
	}
	d.count()
	if err := register(); err != nil {
		return errors.Join(err, d.close())
	}
	have := identity{formatVersion, d.cluster.ID.String(), cfg.Name, d.self.Incarnation.String(), d.cluster.Partitions, d.cluster.Replicas, nil, ""}
	b, err := json.MarshalIndent(have, "", "  ")
	if err == nil {
		d.super = &superblocks{data: cfg.Data}
		err = d.startSuperblock(&have)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("format: %w", err), d.close())
	}
	err = writeFile(path(identityFile), append(b, '\n'))
	if err == nil {
		err = os.Remove(path(formattingFile))
	}
	if err == nil {
		err = syncDir(cfg.Data)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("format: %w", err), d.close())
	}
	return nil
}

func (d *directory) close() (err error) {
	if !d.joins() {
		err = errors.Join(d.facts.Close(), d.register.Close())
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
		d.lock = nil
	}
	return err
}

// writeFile writes a small file so that it is whole or not there.
func writeFile(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o660)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
