package agenda

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/schedule"
)

// thing is a schedule of a test.
type thing struct {
	entry Entry
	index int
}

func (x *thing) Entry() *Entry { return &x.entry }

// TestAgainstASortedList sets, moves and removes, and compares the order.
func TestAgainstASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Agenda[*thing]
		model, things := map[UUID]int64{}, map[UUID]*thing{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			uuid := UUID{rapid.ByteRange(0, 30).Draw(t, "uuid")}
			x := things[uuid]
			if x == nil {
				x = &thing{entry: Entry{UUID: uuid}}
				things[uuid] = x
			}
			if rapid.IntRange(0, 3).Draw(t, "step") == 0 {
				a.Remove(x)
				delete(model, uuid)
			} else {
				wake := rapid.Int64Range(0, 20).Draw(t, "wake")
				a.Set(x, wake)
				model[uuid] = wake
			}
			if got, ok := x.entry.Wake(); ok != slices.Contains(keys(model), uuid) || got != model[uuid] {
				t.Fatalf("%x wakes at %d, %t; want %d", uuid[0], got, ok, model[uuid])
			}
		}
		want := keys(model)
		slices.SortFunc(want, func(x, y UUID) int {
			if model[x] != model[y] {
				return int(model[x] - model[y])
			}
			return bytes.Compare(x[:], y[:])
		})
		if a.Len() != len(want) {
			t.Fatalf("%d schedules, want %d", a.Len(), len(want))
		}
		after := rapid.Int64Range(-1, 20).Draw(t, "after")
		soonest, found := int64(0), slices.ContainsFunc(want, func(u UUID) bool { return model[u] > after })
		if found {
			soonest = model[want[slices.IndexFunc(want, func(u UUID) bool { return model[u] > after })]]
		}
		if got, ok := a.Soonest(after, 100); ok != found || got != soonest {
			t.Fatalf("after %d comes %d, %t; want %d, %t", after, got, ok, soonest, found)
		}
		for _, w := range want {
			x, wake, ok := a.First()
			if !ok || x != things[w] || wake != model[w] {
				t.Fatalf("first is %x at %d, want %x at %d", x.entry.UUID[0], wake, w[0], model[w])
			}
			a.Remove(x)
		}
		if x, _, ok := a.First(); ok || x != nil || a.Len() != 0 {
			t.Fatalf("%d are left", a.Len())
		}
	})
}

func keys(m map[UUID]int64) (out []UUID) {
	for k := range m { // Any order: whoever needs one sorts.
		out = append(out, k)
	}
	return out
}

const many = 100_000

// timetables compiles as many schedules as a large cluster has: some fixed,
// most spread by `?`, in a few zones.
func timetables(tb testing.TB) []*schedule.Timetable {
	tb.Helper()
	z := schedule.NewZones()
	specs := []string{"? ? * * *", "?/5 * * * *", "30 2 * * *", "@daily", "0 9 * * MON-FRI", "? ?(0-7) ? * *", "@every 90s", "* * * * *"}
	names := []string{"", "America/New_York", "Europe/Berlin", "Asia/Tokyo", "Australia/Sydney"}
	var parsed []schedule.Spec
	for _, s := range specs {
		p, err := schedule.Parse(s)
		if err != nil {
			tb.Fatal(err)
		}
		parsed = append(parsed, p)
	}
	out := make([]*schedule.Timetable, many)
	for i := range out {
		zone, err := z.Load(names[i%len(names)])
		if err != nil {
			tb.Fatal(err)
		}
		if out[i], err = parsed[i%len(parsed)].Compile(uuidOf(i), zone); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

func uuidOf(i int) (u UUID) {
	binary.BigEndian.PutUint64(u[:], rand.New(rand.NewPCG(uint64(i), 1)).Uint64())
	binary.BigEndian.PutUint64(u[8:], uint64(i))
	return u
}

// TestManySchedules holds 100,000 timetables in an agenda in a fraction of the
// 200 MiB a master may take, and runs a minute of them in order.
func TestManySchedules(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tables := timetables(t)
	begin := time.Date(2026, 3, 8, 4, 59, 30, 0, time.UTC).UnixNano()
	var a Agenda[*thing]
	for i, table := range tables {
		next, ok := table.Next(begin)
		if !ok {
			t.Fatalf("%d is never due", i)
		}
		a.Set(&thing{Entry{UUID: uuidOf(i)}, i}, next)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mib := float64(after.HeapAlloc-before.HeapAlloc) / (1 << 20); mib > 40 {
		t.Errorf("they take %.1f MiB", mib)
	} else {
		t.Logf("they take %.1f MiB", mib)
	}
	launches, last := 0, begin
	for {
		x, wake, ok := a.First()
		if !ok || wake > begin+int64(time.Minute) {
			break
		}
		if wake < last {
			t.Fatalf("%d comes after %d", wake, last)
		}
		next, ok := tables[x.index].Next(wake)
		if !ok || next <= wake {
			t.Fatalf("after %d comes %d, %t", wake, next, ok)
		}
		a.Set(x, next)
		launches, last = launches+1, wake
	}
	if a.Len() != many || launches < many/8 { // an eighth is due each minute
		t.Errorf("%d schedules, %d launches", a.Len(), launches)
	}
}

// BenchmarkFill computes the next instants of 100,000 schedules and sorts them.
func BenchmarkFill(b *testing.B) {
	tables, begin := timetables(b), time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	things := make([]thing, many)
	for b.Loop() {
		var a Agenda[*thing]
		for i, table := range tables {
			things[i] = thing{Entry{UUID: uuidOf(i)}, i}
			next, _ := table.Next(begin)
			a.Set(&things[i], next)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/schedule")
}

// BenchmarkTurn takes the first of 100,000, computes its next instant and puts
// it back.
func BenchmarkTurn(b *testing.B) {
	tables, begin := timetables(b), time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	var a Agenda[*thing]
	for i, table := range tables {
		next, _ := table.Next(begin)
		a.Set(&thing{Entry{UUID: uuidOf(i)}, i}, next)
	}
	for b.Loop() {
		x, wake, _ := a.First()
		next, _ := tables[x.index].Next(wake)
		a.Set(x, next)
	}
}
