package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// taskID gives IDs in order.
func taskID(n int) (t id.ID) {
	t = id.ID{19: byte(n), 18: byte(n >> 8)}
	copy(t[:8], func() []byte { b := id.OrderOf(at.UnixNano(), id.KindTask); return b[:] }())
	return t
}

func task(n int, more ...crdt.Fact) backup.Task {
	t := backup.Task{ID: taskID(n)}
	t.Facts = append(t.Facts, crdt.Enqueued{Queue: "mail", Payload: []byte(strings.Repeat("p", n%50))}.Fact(t.ID))
	t.Facts = append(t.Facts, more...)
	return t
}

func some(n int) (all []backup.Task) {
	for i := range n {
		t := task(i)
		switch i % 4 {
		case 1:
			t.Facts = append(t.Facts, crdt.Completed{Token: 7<<32 | 1, At: at.UnixNano(), Result: []byte("r")}.Fact(t.ID))
		case 2:
			t.Facts = append(t.Facts, crdt.Update{Token: 7<<32 | 1, Data: []byte("u"), At: at.UnixNano()}.Fact(t.ID))
			t.Claims = []backup.Claim{{Token: 7<<32 | 1, End: at.Add(time.Minute).UnixNano(), Worker: "w"}}
		}
		all = append(all, t)
	}
	return all
}

// written is a backup of one partition with so many tasks.
func written(t *testing.T, n int, seal backup.Seal) (*backup.Manifest, map[string][]byte) {
	t.Helper()
	m := &backup.Manifest{Format: backup.Format, Name: "norn-x-g0-20260102T030405Z", Partitions: 1, Began: at, Scope: backup.All}
	objects := map[string][]byte{}
	w := backup.NewWriter(m.Name, seal, backup.NewPacker(1))
	w.Begin(0, "taker")
	flush := func() {
		p, b, ok, err := w.Part()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			m.Parts, objects[p.Name] = append(m.Parts, p), bytes.Clone(b)
		}
	}
	for i, task := range some(n) {
		if err := m.Add(&task, at); err != nil {
			t.Fatal(err)
		}
		if w.Add(&task) || i%40 == 39 {
			flush()
		}
	}
	flush()
	m.Each = []backup.Partition{{Tasks: m.Tasks, Facts: m.Facts, Root: m.Root}}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	objects[m.Name+backup.ManifestEnd] = b
	return m, objects
}

// readAll reads a backup.
func readAll(m *backup.Manifest, objects map[string][]byte, open backup.Seal) (all []backup.Task, err error) {
	m, err = backup.DecodeManifest(m.Name+backup.ManifestEnd, objects[m.Name+backup.ManifestEnd])
	if err != nil {
		return nil, err
	}
	var sum backup.Summary
	for i := range m.Parts {
		raw, err := backup.OpenPart(m.Name, &m.Parts[i], objects[m.Parts[i].Name], open, backup.NewUnpacker(1))
		if err != nil {
			return nil, err
		}
		err = backup.ReadPart(&m.Parts[i], raw, func(t *backup.Seen) error {
			all = append(all, t.Clone())
			sum.AddSeen(t, m.Began)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if !sum.Same(&m.Summary) {
		return nil, backup.ErrDamaged
	}
	return all, nil
}

func same(a, b backup.Task) bool {
	return a.ID == b.ID && slices.Equal(a.Claims, b.Claims) && slices.EqualFunc(a.Facts, b.Facts, func(x, y crdt.Fact) bool {
		return x.Task == y.Task && x.Key == y.Key && bytes.Equal(x.Body, y.Body) && x.CRC == y.CRC
	})
}

// TestABackupReadsAsItWasWritten also counts it.
func TestABackupReadsAsItWasWritten(t *testing.T) {
	m, objects := written(t, 100, nil)
	got, err := readAll(m, objects, nil)
	if err != nil || !slices.EqualFunc(got, some(100), same) {
		t.Fatalf("read %d tasks: %v", len(got), err)
	}
	want := map[string]uint64{"ready": 50, "completed": 25, "claimed": 25}
	if fmt.Sprint(m.Counts["mail"]) != fmt.Sprint(want) || m.Held != 25 || m.MaxToken != 7<<32|1 || len(m.Parts) != 3 {
		t.Errorf("counted %v, %d held, token %d, %d parts", m.Counts, m.Held, m.MaxToken, len(m.Parts))
	}
}

// TestNoDamageGoesUnseen changes each byte of every object, cuts each short, and puts each
// in the place of another.
func TestNoDamageGoesUnseen(t *testing.T) {
	m, objects := written(t, 100, nil)
	for name, b := range objects {
		check := func(what string, damaged []byte, kinds ...error) {
			t.Helper()
			changed := map[string][]byte{}
			for n, b := range objects {
				changed[n] = b
			}
			changed[name] = damaged
			_, err := readAll(m, changed, nil)
			if !slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) }) || !strings.Contains(fmt.Sprint(err), name) {
				t.Fatalf("%s: %s: %v", name, what, err)
			}
		}
		for i := range b {
			flipped := bytes.Clone(b)
			flipped[i] ^= 1 << (i % 8)
			check(fmt.Sprintf("byte %d changed", i), flipped, backup.ErrDamaged, backup.ErrNewer)
			check(fmt.Sprintf("cut to %d bytes", i), b[:i], backup.ErrDamaged, backup.ErrNewer)
		}
		check("one byte more", append(bytes.Clone(b), 0), backup.ErrDamaged)
		for other, o := range objects {
			if other != name {
				check("it is "+other, o, backup.ErrDamaged)
			}
		}
	}
}

// TestAPartOfAnotherBackupIsRefused although its checksums fit.
func TestAPartOfAnotherBackupIsRefused(t *testing.T) {
	m, objects := written(t, 10, nil)
	p := m.Parts[0]
	for what, open := range map[string]func(p backup.Part) error{
		"another backup": func(p backup.Part) error {
			_, err := backup.OpenPart("norn-y", &p, objects[p.Name], nil, backup.NewUnpacker(1))
			return err
		},
		"another partition": func(p backup.Part) error {
			p.Partition = 1
			_, err := backup.OpenPart(m.Name, &p, objects[p.Name], nil, backup.NewUnpacker(1))
			return err
		},
		"another number": func(p backup.Part) error {
			p.Number = 1
			_, err := backup.OpenPart(m.Name, &p, objects[p.Name], nil, backup.NewUnpacker(1))
			return err
		},
	} {
		if err := open(p); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "it is part 0 of partition 0") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestANewerFormatIsNamed is told from damage.
func TestANewerFormatIsNamed(t *testing.T) {
	m, objects := written(t, 10, nil)
	for name, b := range objects {
		newer := bytes.Replace(b, []byte(" 1"), []byte(" 2"), 1)
		objects := map[string][]byte{m.Parts[0].Name: objects[m.Parts[0].Name], m.Name + backup.ManifestEnd: objects[m.Name+backup.ManifestEnd], name: newer}
		if _, err := readAll(m, objects, nil); !errors.Is(err, backup.ErrNewer) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnionIsWhatAMajorityHas: each fact is on two of three replicas, whose pages end where
// they like; the unions of the pages, put together, have every fact once.
//
// Long because: it is one story.
func TestUnionIsWhatAMajorityHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := some(rapid.IntRange(0, 12).Draw(t, "tasks"))
		replicas := make([][]crdt.Fact, 3)
		for _, task := range want {
			for _, f := range task.Facts {
				lacks := rapid.IntRange(0, 3).Draw(t, "lacks")
				for r := range replicas {
					if r != lacks {
						replicas[r] = append(replicas[r], f)
					}
				}
			}
		}
		claims := map[id.ID][]backup.Claim{}
		for _, task := range want {
			claims[task.ID] = task.Claims
		}
		page := func(r int, from backup.Position) (p backup.Page) {
			most := rapid.IntRange(1, 5).Draw(t, "facts")
			for _, f := range replicas[r] {
				if from.Compare(backup.Position{Task: f.Task, Key: f.Key}) >= 0 {
					continue
				}
				if most--; most < 0 {
					last := p.Tasks[len(p.Tasks)-1]
					p.Next = backup.Position{Task: last.ID, Key: last.Facts[len(last.Facts)-1].Key}
					break
				}
				if n := len(p.Tasks); n == 0 || p.Tasks[n-1].ID != f.Task {
					p.Tasks = append(p.Tasks, backup.Task{ID: f.Task, Claims: claims[f.Task]})
				}
				last := &p.Tasks[len(p.Tasks)-1]
				last.Facts = append(last.Facts, f)
			}
			return p
		}
		var whole backup.Assembler
		var got []backup.Task
		var from backup.Position
		for {
			skip := rapid.IntRange(0, 3).Draw(t, "does not answer")
			var pages []backup.Page
			for r := range replicas {
				if r != skip {
					p := page(r, from)
					var b []byte
					for i := range p.Tasks {
						b = backup.AppendTask(b, &p.Tasks[i])
					}
					decoded, err := backup.DecodePage(b, p.Next.Encode())
					if err != nil {
						t.Fatal(err)
					}
					pages = append(pages, decoded)
				}
			}
			p := backup.Union(pages)
			var b []byte
			for i := range p.Tasks {
				b = backup.AppendTask(b, &p.Tasks[i])
			}
			err := whole.Add(b, p.Next.IsZero(), func(t *backup.Task) error {
				got = append(got, t.Clone())
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if p.Next.IsZero() {
				break
			}
			if p.Next.Compare(from) <= 0 {
				t.Fatalf("no way forward from %v", from)
			}
			from = p.Next
		}
		if !slices.EqualFunc(got, want, same) {
			t.Fatalf("got\n%v\nwant\n%v", got, want)
		}
	})
}

// TestWhatIsFinishedIsKeptShort of an unfinished backup, and what was collected of any.
func TestWhatIsFinishedIsKeptShort(t *testing.T) {
	stone := crdt.Tombstone{Outcome: crdt.StateCompleted, At: 5, Collected: 6}
	for _, c := range []struct {
		name  string
		f     backup.Filter
		more  []crdt.Fact
		take  bool
		facts int
		state string
	}{
		{"ready", backup.Filter{Scope: backup.Unfinished}, nil, true, 1, "ready"},
		{"completed", backup.Filter{Scope: backup.Unfinished}, []crdt.Fact{crdt.Completed{Token: 1, At: 5}.Fact(taskID(1))}, true, 1, "completed"},
		{"completed, all", backup.Filter{Scope: backup.All}, []crdt.Fact{crdt.Completed{Token: 1, At: 5}.Fact(taskID(1))}, true, 2, "completed"},
		{"dead", backup.Filter{Scope: backup.Unfinished}, []crdt.Fact{crdt.Dead{Reason: "x"}.Fact(taskID(1))}, true, 2, "dead"},
		{"collected", backup.Filter{Scope: backup.All}, []crdt.Fact{stone.Fact(taskID(1))}, true, 1, "completed"},
		{"another queue", backup.Filter{Scope: backup.All, Queues: []string{"x"}}, nil, false, 1, "ready"},
		{"the queue", backup.Filter{Scope: backup.All, Queues: []string{"x", "mail"}}, nil, true, 1, "ready"},
	} {
		task := task(1, c.more...)
		task.Claims = []backup.Claim{{Token: 1, End: 9}}
		c.f.At = at
		take, err := c.f.Take(&task)
		var s backup.Summary
		if c.state != "ready" && len(task.Claims) > 0 {
			t.Errorf("%s: a finished task has claims", c.name)
		}
		task.Claims = nil
		if err := s.Add(&task, at); err != nil {
			t.Fatal(err)
		}
		if n := s.Counts["mail"][c.state] + s.Counts[""][c.state]; err != nil || take != c.take || len(task.Facts) != c.facts || n != 1 {
			t.Errorf("%s: taken %v, %d facts, counted %v: %v", c.name, take, len(task.Facts), s.Counts, err)
		}
	}
}

// TestAHeldClaimIsFreedOnce: a restore that is repeated writes the same, and what has ended
// by a fact is left as it is.
func TestAHeldClaimIsFreedOnce(t *testing.T) {
	held := task(1)
	held.Claims = []backup.Claim{{Token: 3, End: 100, Worker: "w"}}
	again := task(1)
	again.Claims = held.Claims
	held.Free(time.Second)
	again.Free(time.Second)
	if !same(held, again) || len(held.Facts) != 2 || held.Claims != nil {
		t.Fatalf("freed as %v and %v", held, again)
	}
	v, err := crdt.View(held.ID, slices.Values(held.Facts))
	if err != nil || v.NotBefore() != 100+int64(time.Second) || v.Attempts() != 0 {
		t.Errorf("it waits until %d with %d attempts: %v", v.NotBefore(), v.Attempts(), err)
	}
	done := task(1, crdt.Expired{Token: 3, At: 5}.Fact(taskID(1)))
	done.Claims = []backup.Claim{{Token: 3, End: 100}}
	if done.Free(time.Second); len(done.Facts) != 2 {
		t.Errorf("facts %v", done.Facts)
	}
}

func FuzzTasks(f *testing.F) {
	var b []byte
	for _, t := range some(8) {
		b = backup.AppendTask(b, &t)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		var out []byte
		for task, err := range backup.Tasks(b) {
			if err != nil {
				if !errors.Is(err, backup.ErrDamaged) {
					t.Fatal(err)
				}
				return
			}
			out = backup.AppendTask(out, &task)
		}
		again := 0
		for _, err := range backup.Tasks(out) {
			if again++; err != nil {
				t.Fatalf("what was written again does not read: %v", err)
			}
		}
	})
}

func FuzzManifest(f *testing.F) {
	m := &backup.Manifest{Format: 1, Name: "norn-x", Partitions: 0}
	b, _ := m.Encode()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := backup.DecodeManifest("norn-x.tasks", b)
		if err != nil {
			if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		if _, err := m.Encode(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestGatheredAsTheyAre: facts that come one by one make the form of their tasks, as many as there are.
func TestGatheredAsTheyAre(t *testing.T) {
	all := some(9)
	for token := range uint64(200) { // more facts than one byte counts
		all[4].Facts = append(all[4].Facts, crdt.Expired{Token: 9<<32 | token, At: 5}.Fact(all[4].ID))
	}
	slices.SortFunc(all[4].Facts, func(a, b crdt.Fact) int { return a.Key.Compare(b.Key) })
	var want []byte
	var g backup.Gatherer
	for i := range all {
		want = backup.AppendTask(want, &all[i])
		for j := range all[i].Facts {
			g.Add(&all[i].Facts[j])
		}
		if task, open := g.Open(); !open || task != all[i].ID {
			t.Fatalf("task %s is open: %v", task, open)
		}
		g.End(all[i].Claims)
	}
	if _, open := g.Open(); open || !bytes.Equal(g.Bytes, want) {
		t.Fatalf("gathered\n%x\nwant\n%x", g.Bytes, want)
	}
	for rest, i := want, 0; len(rest) > 0; i++ {
		r, behind, err := backup.NextRecord(rest)
		if err != nil || r.ID != all[i].ID || r.Facts != len(all[i].Facts) || r.Claims != len(all[i].Claims) || !bytes.Equal(r.Bytes, backup.AppendTask(nil, &all[i])) {
			t.Fatalf("record %d: %+v, %v", i, r, err)
		}
		if _, _, err := backup.NextRecord(rest[:len(r.Bytes)-1]); !errors.Is(err, backup.ErrDamaged) {
			t.Fatalf("record %d cut short: %v", i, err)
		}
		rest = behind
	}
}
