package archive

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// oneFile is a file system with one file in it.
type oneFile struct {
	memory
	data []byte
}

func (f oneFile) Open(string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f.data)), nil
}

// FuzzData reads any bytes as a data file. What is read without an error is
// what the manifest says.
func FuzzData(f *testing.F) {
	_, m, data, _ := archived(f, 3)
	f.Add(data, 3)
	f.Add(data[:len(data)/2], 3)
	f.Add(compressed(f, make([]byte, 1<<20)), 100)
	f.Add(compressed(f, binary.AppendUvarint(nil, MaxRecord)), 1)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, b []byte, tasks int) {
		m := m
		m.Tasks, m.RecordsBytes = tasks, 1<<20
		n := 0
		err := readFile(oneFile{data: b}, "", &m, func(task *nornv1.Task) bool { n++; return task != nil })
		if err == nil || n > max(tasks, 0) {
			t.Errorf("%d tasks of %d, %v", n, tasks, err)
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzRecords reads any bytes as uncompressed records: those that pass are
// written again as the same bytes.
func FuzzRecords(f *testing.F) {
	var seed []byte
	for _, task := range finished(3) {
		var err error
		if seed, err = appendRecord(seed, task); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(seed)
	f.Add(seed[:len(seed)-1])
	f.Add([]byte{0})
	f.Add([]byte{0x80, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := records{in: bufio.NewReader(bytes.NewReader(b))}
		var seen []byte
		for {
			record, message, err := r.next()
			if err != nil {
				if err == io.EOF && !bytes.Equal(seen, b) {
					t.Errorf("the end after %d of %d bytes", len(seen), len(b))
				}
				return
			}
			seen = append(seen, record...)
			if size, n := binary.Uvarint(record); n <= 0 || int(size) != len(message) || n+len(message) != len(record) || !bytes.HasPrefix(b, seen) {
				t.Fatalf("record %x, message %x of %x", record, message, b)
			}
			task, err := parseRecord(message)
			if err != nil {
				continue
			}
			if _, err := appendRecord(nil, task); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
		}
	})
}

// FuzzManifest reads any bytes as a manifest.
func FuzzManifest(f *testing.F) {
	_, _, _, manifest := archived(f, 3)
	f.Add(manifest)
	f.Add([]byte("{}"))
	f.Add([]byte(`{"format":1,"file":"../x.zst"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
				t.Errorf("%v", err)
			}
			return
		}
		n, stem, _, ok := parseName(m.File)
		if own, err := owner(m.Cluster, m.Node); !ok || err != nil || n.owner != own || bytes.ContainsAny([]byte(stem), "/\\\x00") {
			t.Errorf("passes: %+v, %v", m, err)
		}
	})
}
