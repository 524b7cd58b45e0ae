package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// archived writes one archive and gives both of its files.
func archived(t testing.TB, n int) (dir string, m Manifest, data, manifest []byte) {
	t.Helper()
	dir = t.TempDir()
	m = write(t, open(t, dir, "n1"), noon, finished(n))
	data, err := os.ReadFile(filepath.Join(dir, m.File))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err = os.ReadFile(filepath.Join(dir, manifestName(m)))
	if err != nil {
		t.Fatal(err)
	}
	return dir, m, data, manifest
}

func manifestName(m Manifest) string { return strings.TrimSuffix(m.File, dataExt) + manifestExt }

func put(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// problem verifies a directory and gives its only problem.
func problem(t testing.TB, dir, when string) error {
	t.Helper()
	r, err := Verify(t.Context(), dir, nil)
	if err != nil || len(r.Problems) > 1 {
		t.Fatalf("%s: %+v, %v", when, r, err)
	}
	if len(r.Problems) == 0 {
		return nil
	}
	if r.Archives != 0 || r.Tasks != 0 {
		t.Errorf("%s: a problem, and yet %+v", when, r)
	}
	return r.Problems[0].Err
}

// TestEveryFlippedBit changes each byte of both files in one bit.
func TestEveryFlippedBit(t *testing.T) {
	t.Parallel()
	dir, m, data, manifest := archived(t, 10)
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1 << (i % 8)
		put(t, dir, m.File, bad)
		if err := problem(t, dir, "data"); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d of the data: %v", i, err)
		}
		if got, err := collect(dir, m); err == nil {
			t.Errorf("byte %d of the data: %d tasks are read", i, len(got))
		}
	}
	put(t, dir, m.File, data)
	harmless := 0
	for i := range manifest {
		bad := slices.Clone(manifest)
		bad[i] ^= 1 << (i % 8)
		put(t, dir, manifestName(m), bad)
		switch err := problem(t, dir, "manifest"); {
		case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion):
			t.Errorf("byte %d of the manifest: %v", i, err)
		case err == nil: // the case of a member's name, which does not matter
			harmless++
			if got, err := Manifests(dir); err != nil || len(got) != 1 || got[0] != m {
				t.Errorf("byte %d of the manifest: %+v, %v", i, got, err)
			}
		}
	}
	if harmless > len(manifest)/10 {
		t.Errorf("%d of %d flipped bits of the manifest are not noticed", harmless, len(manifest))
	}
}

// TestEveryTruncation cuts both files at each byte.
func TestEveryTruncation(t *testing.T) {
	dir, m, data, manifest := archived(t, 10)
	for i := range data {
		put(t, dir, m.File, data[:i])
		if err := problem(t, dir, "data"); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of the data: %v", i, err)
		}
	}
	put(t, dir, m.File, data)
	for i := range manifest[:len(manifest)-1] { // without the last newline it is whole
		put(t, dir, manifestName(m), manifest[:i])
		if err := problem(t, dir, "manifest"); !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes of the manifest: %v", i, err)
		}
	}
}

// compressed makes a data file of records.
func compressed(t testing.TB, records []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	return z.EncodeAll(records, nil)
}

// TestDamages changes what a file holds and what its manifest says of it.
//
// Long because: it is one table.
func TestDamages(t *testing.T) {
	dir, m, data, manifest := archived(t, 10)
	other := write(t, open(t, t.TempDir(), "n1"), noon.Add(1), finished(10))
	edited := func(edit func(map[string]any)) []byte {
		v := map[string]any{}
		if err := json.Unmarshal(manifest, &v); err != nil {
			t.Fatal(err)
		}
		edit(v)
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	set := func(member string, value any) []byte {
		return edited(func(v map[string]any) {
			if _, ok := v[member]; !ok {
				t.Fatalf("a manifest has no %s", member)
			}
			v[member] = value
		})
	}
	for name, tc := range map[string]struct {
		data, manifest []byte
		want           error
		text           string
	}{
		"something behind":       {append(slices.Clone(data), 'x'), manifest, ErrDamaged, ""},
		"an empty frame behind":  {append(slices.Clone(data), 0x28, 0xb5, 0x2f, 0xfd, 0x24, 0, 1, 0, 0, 0x99, 0xe9, 0xd8, 0x51), manifest, ErrDamaged, "bytes is"},
		"a skippable frame":      {append(slices.Clone(data), 0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0), manifest, ErrDamaged, "bytes is"},
		"the same records twice": {append(slices.Clone(data), data...), manifest, ErrDamaged, ""},
		"no zstd":                {[]byte("hello"), manifest, ErrDamaged, "after 0 of 10 tasks"},
		"no manifest":            {data, []byte("[]"), ErrDamaged, manifestName(m)},
		"a huge manifest":        {data, append(slices.Clone(manifest), bytes.Repeat([]byte(" "), maxManifest)...), ErrDamaged, "over 65536 bytes"},
		"a newer format":         {data, set("format", 2), ErrVersion, "format 2"},
		"format 0":               {data, set("format", 0), ErrDamaged, "format 0"},
		"other cluster":          {data, set("cluster", strings.Replace(cluster, "0f", "1f", 1)), ErrDamaged, "is not of cluster"},
		"other node":             {data, set("node", "n2"), ErrDamaged, "is not of cluster"},
		"other file":             {data, set("file", other.File), ErrDamaged, ""},
		"path as file":           {data, set("file", "../"+m.File), ErrDamaged, "is not the name of a data file"},
		"other time":             {data, set("created_at", noon.Add(1)), ErrDamaged, "was not created"},
		"fewer tasks":            {data, set("tasks", 9), ErrDamaged, "more tasks"},
		"more tasks":             {data, set("tasks", 11), ErrDamaged, "tasks is 10, the manifest says 11"},
		"no tasks":               {data, set("tasks", 0), ErrDamaged, "not 1 to"},
		"too many tasks":         {data, set("tasks", MaxTasks+1), ErrDamaged, "not 1 to"},
		"fewer bytes":            {data, set("records_bytes", m.RecordsBytes-1), ErrDamaged, ""},
		"more bytes":             {data, set("records_bytes", m.RecordsBytes+1), ErrDamaged, "records_bytes is"},
		"too many bytes":         {data, set("records_bytes", MaxBytes+1), ErrDamaged, "over"},
		"other size":             {data, set("bytes", m.Bytes+1), ErrDamaged, "bytes is"},
		"other hash":             {data, set("sha256", other.SHA256[1:]+"0"), ErrDamaged, "sha256 is"},
		"other hash of records":  {data, set("records_sha256", m.SHA256), ErrDamaged, "records_sha256 is"},
		"other first":            {data, set("first_id", m.LastID), ErrDamaged, "first_id is"},
		"other last":             {data, set("last_id", m.FirstID), ErrDamaged, "last_id is"},
		"other min":              {data, set("min_finished_at", m.MaxFinishedAt), ErrDamaged, "min_finished_at is"},
		"other max":              {data, set("max_finished_at", m.MinFinishedAt), ErrDamaged, "max_finished_at is"},
		"no max":                 {data, edited(func(v map[string]any) { delete(v, "max_finished_at") }), ErrDamaged, "the manifest says never"},
		"negative":               {data, set("bytes", -1), ErrDamaged, ""},
		"a new member":           {data, edited(func(v map[string]any) { v["later"] = true }), nil, ""},
	} {
		put(t, dir, m.File, tc.data)
		put(t, dir, manifestName(m), tc.manifest)
		err := problem(t, dir, name)
		if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, m.File)); err != nil {
		t.Fatal(err)
	}
	put(t, dir, manifestName(m), manifest)
	if err := problem(t, dir, "no data"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no data: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, m.File), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := problem(t, dir, "a directory"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory as data: %v", err)
	}
}

// TestOneDamageHidesNothing has a damaged manifest, a damaged file and files
// of others beside archives that are whole.
func TestOneDamageHidesNothing(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "n1")
	var all []Manifest
	for i := range 4 {
		all = append(all, write(t, w, noon.Add(time.Duration(i)), finished(5)))
	}
	put(t, dir, manifestName(all[1]), []byte("{"))
	put(t, dir, all[2].File, []byte("x"))
	put(t, dir, "README", []byte("the archives of our shop"))
	unfinished := strings.Replace(all[0].File, "n1", "n2", 1)
	put(t, dir, unfinished, nil)
	got, err := Manifests(dir)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), manifestName(all[1])) || len(got) != 3 || got[0] != all[0] || got[2] != all[3] {
		t.Errorf("%d manifests, %v", len(got), err)
	}
	r, err := Verify(t.Context(), dir, nil)
	if err != nil || r.Archives != 2 || r.Tasks != 10 || len(r.Problems) != 2 || !slices.Equal(r.Unfinished, []string{unfinished}) {
		t.Errorf("%+v, %v", r, err)
	}
	// The next write leaves them as they are: they have a manifest.
	write(t, w, noon.Add(time.Hour), finished(1))
	if again, err := Verify(t.Context(), dir, nil); err != nil || again.Archives != 3 || len(again.Problems) != 2 || len(again.Unfinished) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestBombsAreCheap shows that a small file cannot take much memory, whatever
// it and its manifest say.
func TestBombsAreCheap(t *testing.T) {
	claims := append(binary.AppendUvarint(nil, 2*5_000_000), bytes.Repeat([]byte{0x5a, 0}, 5_000_000)...)
	for name, tc := range map[string]struct {
		records []byte
		text    string
		budget  uint64
	}{
		"zeros":         {make([]byte, 50<<20), "a length of zero", 24 << 20},
		"a long length": {append(binary.AppendUvarint(nil, MaxRecord), 1, 2, 3), "has 3", 24 << 20},
		"over length":   {append(binary.AppendUvarint(nil, MaxRecord+1), make([]byte, 50<<20)...), "over 67108864 bytes", 24 << 20},
		"endless":       {bytes.Repeat([]byte{0xff}, 50<<20), "over 67108864 bytes", 24 << 20},
		"empty claims":  {claims, "over 262144 fields", 60 << 20},
	} {
		dir, m, _, _ := archived(t, 1)
		put(t, dir, m.File, compressed(t, tc.records))
		m.Tasks, m.RecordsBytes = MaxTasks, MaxBytes
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, err := collect(dir, m)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tc.text) || len(n) > 0 {
			t.Errorf("%s: %d tasks, %v", name, len(n), err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > tc.budget {
			t.Errorf("%s: %d bytes were allocated, over %d", name, used, tc.budget)
		}
	}
	// A window over 8 MiB is refused: the frame asks for 16 MiB.
	dir, m, _, _ := archived(t, 1)
	put(t, dir, m.File, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 14 << 3, 1, 0, 0})
	if _, err := collect(dir, m); !errors.Is(err, ErrDamaged) || !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("a window of 16 MiB: %v", err)
	}
}

// TestFormatByHand reads an archive with nothing of this package, as doc.go
// describes it, and an archive of the first build that wrote format 1.
func TestFormatByHand(t *testing.T) {
	dir, m, data, _ := archived(t, 3)
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := z.DecodeAll(data, nil)
	if err != nil || uint64(len(plain)) != m.RecordsBytes {
		t.Fatalf("%d bytes, %v", len(plain), err)
	}
	var got []*nornv1.Task
	for len(plain) > 0 {
		size, n := binary.Uvarint(plain)
		task, err := parseRecord(plain[n : n+int(size)])
		if err != nil {
			t.Fatal(err)
		}
		got, plain = append(got, task), plain[n+int(size):]
	}
	if want, err := collect(dir, m); err != nil || !same(got, want) {
		t.Errorf("by hand %d tasks, else %d, %v", len(got), len(want), err)
	}
	all, err := Manifests("testdata/format1")
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	old, err := collect("testdata/format1", all[0])
	if err != nil || len(old) != 3 || old[0].GetQueue() != "mail" || string(old[2].GetPayload()) != "payload 2" {
		t.Errorf("%v, %v", old, err)
	}
}
