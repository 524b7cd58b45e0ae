package history

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/id"
)

// full has something in every field.
func full(t *testing.T) *Event {
	t.Helper()
	e := &Event{}
	fill(reflect.ValueOf(e).Elem())
	e.Func, e.Phase = Claim, OK
	return e
}

// fill puts something into every field below v.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(Ready), reflect.ValueOf(uint64(3)))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(4)
	}
}

// TestWhatIsWrittenIsRead: a history in a file is the history.
func TestWhatIsWrittenIsRead(t *testing.T) {
	want := []*Event{full(t), {At: 1, Phase: Note, Text: "crash"}, {At: 2, Phase: Invoke, Func: Get, Items: []Item{{Task: id.ID{1}}}}}
	var file bytes.Buffer
	if err := Write(&file, want); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(file.String(), "\n"); n != len(want) {
		t.Fatalf("%d events are %d lines", len(want), n)
	}
	var got []*Event
	if err := Read(&file, func(e *Event) bool { got = append(got, e); return true }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("read %v, wrote %v", got[0], want[0])
	}
	if err := Read(strings.NewReader("{\"at\":1}\n{"), func(*Event) bool { return true }); err == nil {
		t.Fatal("half an event is read without an error")
	}
}

// TestSumSeesEveryField: two histories that differ have different sums.
func TestSumSeesEveryField(t *testing.T) {
	sum := func(events ...*Event) uint64 {
		var s Sum
		for _, e := range events {
			s.Add(e)
		}
		return s.Value()
	}
	base := sum(full(t))
	if base != sum(full(t)) {
		t.Fatal("the same event has two sums")
	}
	var walk func(v reflect.Value, path string, whole *Event)
	walk = func(v reflect.Value, path string, whole *Event) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(v.Elem(), path, whole)
			return
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name, whole)
			}
			return
		case reflect.Slice:
			walk(v.Index(0), path+"[0]", whole)
			return
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.SetZero()
		if sum(whole) == base {
			t.Errorf("the sum does not see %s", path)
		}
		v.Set(old)
	}
	e := full(t)
	walk(reflect.ValueOf(e), "Event", e)
	if sum(e, &Event{}) == sum(e) {
		t.Error("the sum does not see an empty event")
	}
}

// TestLinesForPeople: every line says who, what and when.
func TestLinesForPeople(t *testing.T) {
	line := full(t).String()
	for _, want := range []string{"ok", "claim", "#3", "p4", "queues [x]", "existed", "token 3"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
	if line := (&Event{Text: "node crashes"}).String(); !strings.Contains(line, "node crashes") {
		t.Errorf("a note reads %q", line)
	}
	var all []string
	for p := range Phase(6) {
		all = append(all, p.String())
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 6 {
		t.Errorf("phases read %v", all)
	}
}
