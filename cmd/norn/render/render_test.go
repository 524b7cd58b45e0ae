package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/norn-dev/norn/proto/jsonform"
)

func list(f Format, n int) string {
	var b strings.Builder
	l := NewList(New(&b, f, false), func(i int) jsonform.Value {
		return jsonform.Object(jsonform.Field{Name: "n", Value: jsonform.String(fmt.Sprint(i))})
	}, Column[int]{"n", func(i int) string { return fmt.Sprint(i) }}, Column[int]{"state", func(int) string { return "ready" }})
	for i := range n {
		l.Add(i)
	}
	if err := l.Close(); err != nil {
		return err.Error()
	}
	return b.String()
}

func TestLists(t *testing.T) {
	for want, got := range map[string]string{
		"[]\n":  list(JSON, 0),
		"[]\n ": list(YAML, 0) + " ",
		"":      list(JSONL, 0),
		"[\n  {\n    \"n\": \"0\"\n  },\n  {\n    \"n\": \"1\"\n  }\n]\n": list(JSON, 2),
		"{\"n\":\"0\"}\n{\"n\":\"1\"}\n":                                  list(JSONL, 2),
		"- n: \"0\"\n- n: \"1\"\n":                                        list(YAML, 2),
		"N  STATE\n0  ready\n1  ready\n":                                  list(Table, 2),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := list(Table, 0); got != "" {
		t.Errorf("an empty table is %q", got)
	}
}

func TestLongListsAreWhole(t *testing.T) {
	const n = 3*pageRows + 7
	var items []any
	if err := json.Unmarshal([]byte(list(JSON, n)), &items); err != nil || len(items) != n {
		t.Errorf("json: %d items, %v", len(items), err)
	}
	items = nil
	if err := yaml.Unmarshal([]byte(list(YAML, n)), &items); err != nil || len(items) != n {
		t.Errorf("yaml: %d items, %v", len(items), err)
	}
	rows := strings.Split(strings.TrimSuffix(list(Table, n), "\n"), "\n")
	if len(rows) != n+1 || rows[0] != "N    STATE" && rows[0] != "N     STATE" || rows[n] != fmt.Sprintf("%d  ready", n-1) {
		t.Errorf("table: %d rows, first %q, last %q", len(rows), rows[0], rows[len(rows)-1])
	}
}

func TestPlainLines(t *testing.T) {
	var b strings.Builder
	l := NewList(New(&b, Table, true), func(s string) jsonform.Value { return jsonform.String(s) }, Column[string]{"", func(s string) string { return s }})
	l.Add("a")
	if err := l.Flush(); err != nil || b.String() != "a\n" {
		t.Errorf("after Flush: %q, %v", b.String(), err)
	}
	l.Add("b")
	if err := l.Close(); err != nil || b.String() != "a\nb\n" || l.Len() != 2 {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

func TestObject(t *testing.T) {
	v := jsonform.Object()
	for f, want := range map[Format]string{JSON: "{}\n", JSONL: "{}\n", YAML: "{}\n", Table: "nothing\n"} {
		var b strings.Builder
		if err := New(&b, f, false).Object(v, func(w io.Writer) { fmt.Fprintln(w, "nothing") }); err != nil || b.String() != want {
			t.Errorf("%s: got %q, %v", f, b.String(), err)
		}
	}
}

func TestColor(t *testing.T) {
	var b strings.Builder
	g := NewGrid(true, "id", "state", "queue")
	g.Row("a", "dead", "q")
	g.Row("b", "completed", "q")
	g.Write(&b)
	want := "ID  STATE      QUEUE\na   \x1b[31mdead\x1b[0m       q\nb   \x1b[32mcompleted\x1b[0m  q\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}

func TestTextIsSafe(t *testing.T) {
	for in, want := range map[string]string{
		"hello": "hello", "": "", "héllo": "héllo", "a\x1b[2J": `"a\x1b[2J"`, "a\nb": `"a\nb"`, " a": `" a"`,
		"\xff\x00": "0xff00", strings.Repeat("ü", 100): strings.Repeat("ü", 9) + "…", strings.Repeat("x", 1000): strings.Repeat("x", 9) + "…",
	} {
		if got := Text([]byte(in), 10); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if got := Text([]byte(in), 10); len([]rune(got)) > 10 || strings.ContainsAny(got, "\x1b\n") {
			t.Errorf("%q: got %q", in, got)
		}
	}
	if got := Lines("a\tb\nc\x1b[2J\n\n"); got != "a    b\n\"c\\x1b[2J\"" {
		t.Errorf("got %q", got)
	}
}

// TestBytesThatBeginNoCharacterAreShown: a long payload of nothing else looked empty.
func TestBytesThatBeginNoCharacterAreShown(t *testing.T) {
	for in, want := range map[string]string{
		strings.Repeat("\xaa", 1000):             "0xaaaaaaa…",
		"text " + strings.Repeat("\x80", 1000):   "0x7465787…",
		strings.Repeat("ü", 19) + "xx😀" + "rest": strings.Repeat("ü", 9) + "…",
		"x" + strings.Repeat("😀", 100):           "x" + strings.Repeat("😀", 8) + "…",
	} {
		if got := Text([]byte(in), 10); got != want {
			t.Errorf("%.50q: got %q, want %q", in, got, want)
		}
	}
}

func TestDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Nanosecond: "2µs", 42 * time.Millisecond: "42ms", 4230 * time.Millisecond: "4.2s", 200 * time.Second: "3m20s",
		time.Hour: "1h", 125 * time.Minute: "2h5m", 99 * time.Hour: "4d3h", -time.Minute: "-1m", time.Hour - time.Millisecond: "60m",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
	now := time.Unix(1000, 0)
	if got := Age(now.Add(-90*time.Second), now) + Age(time.Time{}, now) + Age(now.Add(time.Hour), now); got != "1m30s0s" {
		t.Errorf("ages: %s", got)
	}
	if got := Until(now.Add(time.Minute), now) + Until(now, now); got != "1m" {
		t.Errorf("until: %s", got)
	}
	if got := Number(0) + " " + Number(999) + " " + Number(1234567); got != "0 999 1,234,567" {
		t.Errorf("numbers: %s", got)
	}
}

func TestParseFormat(t *testing.T) {
	if f, err := ParseFormat("yaml"); err != nil || f != YAML {
		t.Errorf("%s, %v", f, err)
	}
	if _, err := ParseFormat("xml"); err == nil {
		t.Error("xml passes")
	}
}

func TestPairs(t *testing.T) {
	var b strings.Builder
	Pairs(&b, [2]string{"id", "x"}, [2]string{"leaves out", ""}, [2]string{"error", "a\nb"})
	if b.String() != "id     x\nerror  a\n       b\n" {
		t.Errorf("got %q", b.String())
	}
}

func TestProgress(t *testing.T) {
	var none *Progress
	none.Set(1)
	none.Clear()
	var b strings.Builder
	p := NewProgress(&b, "enqueued")
	p.Set(1)
	p.Clear()
	if b.Len() != 0 {
		t.Errorf("it speaks at once: %q", b.String())
	}
	p.shown = time.Now().Add(-time.Second)
	p.Set(1234)
	p.Clear()
	p.shown = time.Now().Add(-time.Second)
	p.Stage("next", 5, 1000)
	if !strings.Contains(b.String(), "next: 5 of 1,000 (") {
		t.Errorf("got %q", b.String())
	}
	p.Clear()
	if !strings.HasPrefix(b.String(), "\r\x1b[Kenqueued: 1,234 (") || !strings.HasSuffix(b.String(), "\r\x1b[K") {
		t.Errorf("got %q", b.String())
	}
}
