package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// What the files of an audit hold: when one is full it is renamed to FILE.1, that one to
// FILE.2 and so on.
const (
	fileBytes = 64 << 20
	fileCount = 8 // with the one that is written
)

// File is a file of lines that begins anew when it is full. It is not for several writers at a
// time.
type File struct {
	name  string
	limit int64
	f     *os.File
	size  int64
}

// OpenFile opens a file of lines, or makes one that its owner alone can read.
func OpenFile(name string) (*File, error) {
	l := &File{name: name, limit: fileBytes}
	return l, l.open()
}

// open opens the file at its end.
func (l *File) open() error {
	f, err := os.OpenFile(l.name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write adds one line.
func (l *File) Write(line []byte) (int, error) {
	if l.size > 0 && l.size+int64(len(line)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(line)
	l.size += int64(n)
	return n, err
}

// rotate begins a new file. When it cannot, the full one goes on.
//
// The oldest is overwritten. A crash between two renames leaves a gap in the numbers and no
// line lost.
func (l *File) rotate() error {
	for i := fileCount - 1; i > 0; i-- {
		from := l.name
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		if err := os.Rename(from, l.name+"."+strconv.Itoa(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("audit log: %w", err)
		}
	}
	old := l.f
	if err := l.open(); err != nil {
		return err
	}
	return old.Close()
}

// Close closes the file.
func (l *File) Close() error { return l.f.Close() }
