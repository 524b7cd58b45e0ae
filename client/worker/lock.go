package worker

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrLocked is returned by Run when another process holds the lock of
// Config.LockFile.
var ErrLocked = errors.New("worker: the lock file is held by another process")

// lockFile is a locked file. What is in it names the lock, so that a file of the same
// path on another file system is another lock, and says when its newest holder began,
// so that a clock that was set back makes nobody look older than who came before.
type lockFile struct {
	mu    sync.Mutex // guards the fields below
	f     *os.File
	name  string // 32 hex digits
	began int64  // wall ns
}

// maxLockFile bounds what is read of it: a name, a number and two ends of lines.
const maxLockFile = 128

// openLock locks a file.
func openLock(path string) (*lockFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("worker: lock file: %w", err)
	}
	l := &lockFile{f: f}
	if err = lockExclusive(f); err == nil {
		err = l.read()
	}
	if err != nil {
		_ = f.Close() // the error is told
		return nil, fmt.Errorf("%w (%s)", err, path)
	}
	return l, nil
}

// read takes over what the file says; what makes no sense begins anew.
func (l *lockFile) read() error {
	b, err := io.ReadAll(io.LimitReader(l.f, maxLockFile))
	if err != nil {
		return fmt.Errorf("worker: lock file: %w", err)
	}
	words := strings.Fields(string(b))
	if len(words) == 2 {
		if id, bad := hex.DecodeString(words[0]); bad == nil && len(id) == 16 {
			l.name = words[0]
		}
		l.began, _ = strconv.ParseInt(words[1], 10, 64) // 0: as for a new file
	}
	if l.name == "" {
		var id [16]byte
		if _, err := rand.Read(id[:]); err != nil {
			return fmt.Errorf("worker: no randomness: %w", err)
		}
		l.name = hex.EncodeToString(id[:])
	}
	return nil
}

// begin gives when an instance under this lock began, later than all before, and notes
// it.
func (l *lockFile) begin(now time.Time) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := max(now.UnixNano(), l.began+1)
	text := fmt.Sprintf("%s %020d\n", l.name, began)
	if _, err := l.f.WriteAt([]byte(text), 0); err != nil {
		return 0, fmt.Errorf("worker: lock file: %w", err)
	}
	if err := l.f.Truncate(int64(len(text))); err != nil {
		return 0, fmt.Errorf("worker: lock file: %w", err)
	}
	l.began = began
	return began, nil
}

func (l *lockFile) close() { _ = l.f.Close() } // which unlocks it
