package intake

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func unnamed([]client.Task) {}

func all(t *testing.T, src Source) (tasks []client.Task, lines []int, bad []string) {
	t.Helper()
	for {
		task, line, err := src.Next()
		var e *Error
		switch {
		case errors.Is(err, io.EOF):
			return tasks, lines, bad
		case errors.As(err, &e):
			bad = append(bad, err.Error())
		case err != nil:
			t.Fatal(err)
		default:
			tasks, lines = append(tasks, task), append(lines, line)
		}
	}
}

func TestLines(t *testing.T) {
	tasks, lines, bad := all(t, Lines(strings.NewReader("a\r\n\n b \nlast"), client.Task{Queue: "q", Priority: 3}))
	var got []string
	for _, task := range tasks {
		got = append(got, string(task.Payload))
		if task.Queue != "q" || task.Priority != 3 {
			t.Errorf("not like the base: %+v", task)
		}
	}
	if want := []string{"a", "", " b ", "last"}; !reflect.DeepEqual(got, want) || !reflect.DeepEqual(lines, []int{1, 2, 3, 4}) || bad != nil {
		t.Errorf("got %q in lines %v, bad %v", got, lines, bad)
	}
}

func TestLongLinesAreSkipped(t *testing.T) {
	r := newReader(strings.NewReader("1234\n12345\n1234\r\n"+strings.Repeat("x", 3<<20)+"\nend"), 4)
	var got []string
	for {
		b, err := r.line()
		if errors.Is(err, io.EOF) {
			break
		}
		var e *Error
		if errors.As(err, &e) {
			got = append(got, e.Error())
			continue
		}
		got = append(got, string(b))
	}
	want := []string{"1234", "line 2: line is too long: over 4 bytes", "1234", "line 4: line is too long: over 4 bytes", "line 5: line is too long: over 4 bytes"}
	want[4] = "end"
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestJSONLine(t *testing.T) {
	text := "3ZyfAz4TTlNLdMEJYWbpzCDKw1p"
	name, err := id.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	base := client.Task{Queue: "q", Headers: map[string]string{"from": "base"}}
	tasks, lines, bad := all(t, JSONLines(strings.NewReader(`
{"payload":"aGVsbG8=","priority":-2147483648,"id":"`+text+`","at":"2030-01-31T15:04:05.5Z"}
   {"payload_text":"héllo","queue":"other","delay":"90s","headers":{"a":"b"},"key":"k","key_window":"1h","max_attempts":3}

{"after":["`+text+`"],"on_dep_failure":"run"}`), base, nil))
	want := []client.Task{
		{ID: name, Queue: "q", Payload: []byte("hello"), Priority: -1 << 31, NotBefore: time.Date(2030, 1, 31, 15, 4, 5, 5e8, time.UTC), Headers: base.Headers},
		{Queue: "other", Payload: []byte("héllo"), Delay: 90 * time.Second, Headers: map[string]string{"a": "b"}, Key: "k", KeyWindow: time.Hour, Retry: &nornv1.RetryPolicy{MaxAttempts: 3}},
		{Queue: "q", Dependencies: []id.ID{name}, OnDependencyFailure: nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN, Headers: base.Headers},
	}
	if !reflect.DeepEqual(tasks, want) {
		t.Errorf("got %+v\nwant %+v", tasks, want)
	}
	if !reflect.DeepEqual(lines, []int{2, 3, 5}) || bad != nil {
		t.Errorf("lines %v, bad %q", lines, bad)
	}
}

// TestBadJSONLines checks that each mistake is named with its place, and that
// the lines around it are read.
func TestBadJSONLines(t *testing.T) {
	for line, want := range map[string]string{
		`{"payload_text":"x"`:                     `line 2, column 20: malformed JSON: it ends too early`,
		`{"payload_text":x}`:                      `line 2, column 17: malformed JSON: invalid character 'x' looking for beginning of value`,
		`[1]`:                                     `line 2, column 1: expected a JSON object, found array`,
		`null`:                                    `line 2, column 1: expected a JSON object`,
		`{} {}`:                                   `line 2, column 4: something follows the JSON object`,
		`{"payload_text":"x","priorty":1}`:        `line 2, column 21: unknown key "priorty"`,
		`{"priority":3000000000}`:                 `line 2, column 22: priority: number 3000000000 is not a whole number from -2147483648 to 2147483647`,
		`{"priority":1.5}`:                        `line 2, column 15: priority: number 1.5 is not a whole number from -2147483648 to 2147483647`,
		`{"payload":7}`:                           `line 2, column 12: payload: number is not a base64 string`,
		`{"payload":"***"}`:                       `line 2, column 2: payload: it is not base64 (payload_text takes text)`,
		`{"headers":{"a":1}}`:                     `line 2, column 17: headers: number is not an object of strings`,
		`{"payload":"","payload_text":""}`:        `line 2: give one of payload, payload_text and payload_json`,
		`{"id":"short"}`:                          `line 2: id: id: malformed ID: 5 characters, not 27`,
		`{"id":"000000000000000000000000000"}`:    `line 2: id: id: malformed ID: it is zero, which names nothing`,
		`{"delay":"soon"}`:                        `line 2: delay: "soon" is not a duration such as 500ms, 90s or 2h`,
		`{"delay":"-1s"}`:                         `line 2: delay: "-1s" is not a duration such as 500ms, 90s or 2h`,
		`{"at":"tomorrow"}`:                       `line 2: at: "tomorrow" is not a time such as 2030-01-31T15:04:05Z`,
		`{"delay":"1s","at":"2030-01-31T15:04"}`:  `line 2: delay and at are both there`,
		`{"on_dep_failure":"explode"}`:            `line 2: on_dep_failure: "explode" is not cancel, run or wait`,
		`{"after":["x"]}`:                         `line 2: after: id: malformed ID: 1 characters, not 27`,
		`{"payload_text":"a","payload_text":"b"}`: `line 2, column 21: "payload_text" is there twice`,
		`{"headers":{"a":"1", "a":"2"}}`:          `line 2, column 22: "a" is there twice`,
		`{"after":[],"Priority":1}`:               `line 2, column 13: unknown key "Priority"`,
		`{"payload_text":"😀 \ud83d"}`:             `line 2, column 23: malformed JSON: half a character (payload takes any bytes, in base64)`,
		"{\"payload_text\":\"caf\xe9\"}":          `line 2, column 21: malformed JSON: it is not UTF-8 (payload takes any bytes, in base64)`,
	} {
		tasks, lines, bad := all(t, JSONLines(strings.NewReader("{}\n"+line+"\n{}\n"), client.Task{Queue: "q"}, nil))
		if len(bad) != 1 || bad[0] != want {
			t.Errorf("%s\n got %q\nwant %q", line, bad, want)
		}
		if len(tasks) != 2 || !reflect.DeepEqual(lines, []int{1, 3}) {
			t.Errorf("%s: the lines around it gave %d tasks in lines %v", line, len(tasks), lines)
		}
	}
	if _, _, bad := all(t, JSONLines(strings.NewReader("{}"), client.Task{}, nil)); len(bad) != 1 || !strings.Contains(bad[0], "no queue") {
		t.Errorf("without a queue: %q", bad)
	}
}

// TestRunKeepsOrder sends many lines and checks that every one is reported
// once, in order, whatever the senders' pace.
func TestRunKeepsOrder(t *testing.T) {
	const n = 12345
	src := Lines(strings.NewReader(strings.Repeat("x\n", n)), client.Task{Queue: "q"})
	var mu sync.Mutex
	most, now := 0, 0
	send := func(_ context.Context, tasks []client.Task) ([]client.Result, error) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() {
			mu.Lock()
			now--
			mu.Unlock()
		}()
		return make([]client.Result, len(tasks)), nil
	}
	line := 0
	named := 0
	name := func(tasks []client.Task) {
		for i := range tasks {
			named++
			tasks[i].Priority = int32(named)
		}
	}
	err := Run(t.Context(), src, Target{name, send}, func(b *Batch) bool {
		if len(b.Results) != len(b.Tasks) || len(b.Tasks) > maxTasks {
			t.Errorf("%d tasks, %d results", len(b.Tasks), len(b.Results))
		}
		for i, l := range b.Lines {
			if line++; l != line || int(b.Tasks[i].Priority) != line {
				t.Fatalf("line %d after %d, named as number %d", l, line-1, b.Tasks[i].Priority)
			}
		}
		return true
	})
	if err != nil || line != n {
		t.Errorf("%d lines, %v", line, err)
	}
	if most > flying+2 {
		t.Errorf("%d batches at once", most)
	}
}

func TestRunStopsWhenABatchFails(t *testing.T) {
	src := Lines(strings.NewReader(strings.Repeat("x\n", 100_000)), client.Task{})
	gone := errors.New("gone")
	calls, reported := 0, 0
	var mu sync.Mutex
	err := Run(t.Context(), src, Target{unnamed, func(context.Context, []client.Task) ([]client.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return nil, gone
	}}, func(b *Batch) bool {
		if b.Err != nil && !errors.Is(b.Err, gone) {
			t.Errorf("got %v", b.Err)
		}
		reported++
		return true
	})
	mu.Lock()
	defer mu.Unlock()
	if err != nil || calls > flying+3 || reported == 0 {
		t.Errorf("%d calls, %d reported, %v", calls, reported, err)
	}
}

// TestRunSendsWhatIsThere checks that a line is sent before the next one comes.
func TestRunSendsWhatIsThere(t *testing.T) {
	in, out := io.Pipe()
	accepted := make(chan string)
	go func() {
		for _, line := range []string{"one", "two"} {
			_, _ = out.Write([]byte(line + "\n"))
			if got := <-accepted; got != line {
				t.Errorf("got %q, want %q", got, line)
			}
		}
		_ = out.Close()
	}()
	err := Run(t.Context(), Lines(in, client.Task{}), Target{unnamed, func(_ context.Context, tasks []client.Task) ([]client.Result, error) {
		return make([]client.Result, len(tasks)), nil
	}}, func(b *Batch) bool {
		for _, task := range b.Tasks {
			accepted <- string(task.Payload)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestALineThatHasBegunHoldsNobodyUp: whole lines are sent though the next one is there
// in part only, as the output of most programs is while it goes through a pipe.
func TestALineThatHasBegunHoldsNobodyUp(t *testing.T) {
	lines := func(r io.Reader) Source { return Lines(r, client.Task{}) }
	objects := func(r io.Reader) Source { return JSONLines(r, client.Task{Queue: "q"}, nil) }
	for name, c := range map[string]struct {
		source func(io.Reader) Source
		pieces []string
	}{
		"lines":         {lines, []string{"one\ntwo\nthr", "ee\n"}},
		"no line feed":  {lines, []string{"one\ntwo\n", "three"}},
		"objects":       {objects, []string{"{}\n{}\n{\"prio", "rity\": 1}\n"}},
		"an empty line": {objects, []string{"{}\n{}\n \n\n", "{}\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			in, out := io.Pipe()
			accepted := 0
			var done sync.WaitGroup
			done.Go(func() { _, _ = out.Write([]byte(c.pieces[0])) })
			err := Run(t.Context(), c.source(in), Target{unnamed, func(_ context.Context, tasks []client.Task) ([]client.Result, error) {
				return make([]client.Result, len(tasks)), nil
			}}, func(b *Batch) bool {
				if accepted += len(b.Tasks); accepted == 2 { // only now the rest comes
					done.Go(func() {
						_, _ = out.Write([]byte(c.pieces[1]))
						_ = out.Close()
					})
				}
				return true
			})
			done.Wait()
			if err != nil || accepted != 3 {
				t.Errorf("%d tasks, %v", accepted, err)
			}
		})
	}
}

// TestRunEndsWithItsContext checks that input that never comes holds nobody up.
func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	cancel()
	if err := Run(ctx, Lines(in, client.Task{}), Target{Name: unnamed}, func(*Batch) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestAnyTextSplitsIntoItsLines checks lines against strings.Split.
func TestAnyTextSplitsIntoItsLines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[ab\n\r]{0,30}`).Draw(rt, "text")
		want := strings.Split(text, "\n")
		last := len(want) - 1
		for i := range last {
			want[i] = strings.TrimSuffix(want[i], "\r")
		}
		if want[last] == "" {
			want = want[:last]
		}
		tasks, _, _ := all(t, Lines(strings.NewReader(text), client.Task{}))
		if len(tasks) != len(want) {
			rt.Fatalf("%q gives %d lines, want %q", text, len(tasks), want)
		}
		for i := range tasks {
			if string(tasks[i].Payload) != want[i] {
				rt.Fatalf("%q: line %d is %q, want %q", text, i, tasks[i].Payload, want[i])
			}
		}
	})
}

func FuzzJSONLine(f *testing.F) {
	f.Add([]byte(`{"payload":"aGVsbG8=","priority":1,"at":"2030-01-31T15:04:05Z"}`))
	f.Add([]byte(`{"after":["x"],"headers":{"a":"b"}} x`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(trimmed(b)) == 0 {
			return
		}
		task, _, column, err := parse(b, client.Task{Queue: "q"})
		if err == nil && task.Queue == "" || column < 0 || column > len(b)+1 {
			t.Errorf("queue %q, column %d of %d", task.Queue, column, len(b))
		}
	})
}

// TestBOMIsNoInput: some editors begin a file with a byte order mark, which is no part of
// the first line.
func TestBOMIsNoInput(t *testing.T) {
	tasks, _, bad := all(t, Lines(strings.NewReader("\ufeffa\n\ufeffb\n"), client.Task{Queue: "q"}))
	if bad != nil || len(tasks) != 2 || string(tasks[0].Payload) != "a" || string(tasks[1].Payload) != "\ufeffb" {
		t.Errorf("lines: %q, bad %q", tasks, bad)
	}
	tasks, _, bad = all(t, JSONLines(strings.NewReader("\ufeff{}\n"), client.Task{Queue: "q"}, nil))
	if bad != nil || len(tasks) != 1 {
		t.Errorf("JSON lines: %q, bad %q", tasks, bad)
	}
}

// TestPayloadJSON: a payload of JSON is its text, without the white space between its parts.
func TestPayloadJSON(t *testing.T) {
	tasks, _, bad := all(t, JSONLines(strings.NewReader(`{"payload_json": {"b": [1, 2.50], "a": "x y"} }
{"payload_json":null}
{"payload_json":7,"payload_text":"x"}
{"payload_json":1,"payload":""}`), client.Task{Queue: "q"}, nil))
	if len(tasks) != 2 || string(tasks[0].Payload) != `{"b":[1,2.50],"a":"x y"}` || string(tasks[1].Payload) != "null" {
		t.Errorf("got %q", tasks)
	}
	if len(bad) != 2 || !strings.Contains(bad[0], "give one of payload, payload_text and payload_json") {
		t.Errorf("bad %q", bad)
	}
}

// TestTextTakenForBase64 checks whom the note about a payload such as "test" reaches, once.
func TestTextTakenForBase64(t *testing.T) {
	for _, c := range []struct {
		payload string
		noted   bool
	}{
		{"test", true}, {"hello123", true}, {"ABCDEFGHIJKL", true}, {"12345678", true}, {"customerid42", true},
		{"", false}, {"aGVsbG8=", false}, {"aGVsbG8h", false}, {"AAECAwQFBgcICQoL", false}, {"//8A", false},
	} {
		line := `{"payload":"` + c.payload + `"}`
		var notes []string
		note := func(n int, text string) { notes = append(notes, text) }
		if _, _, bad := all(t, JSONLines(strings.NewReader(line+"\n"+line), client.Task{Queue: "q"}, note)); bad != nil {
			t.Fatal(bad)
		}
		if got := len(notes); got != map[bool]int{true: 1}[c.noted] {
			t.Errorf("%q: notes %q", c.payload, notes)
		}
	}
}

// TestInstants: the time of a start is one that the servers take.
func TestInstants(t *testing.T) {
	for text, ok := range map[string]bool{
		"0001-01-01T00:00:00Z": false, "1969-12-31T23:59:59Z": false, "2263-01-01T00:00:00Z": false, "0000-01-01T00:00:00Z": false, "tomorrow": false, "": false,
		"1970-01-01T00:00:00Z": true, "2030-01-31T15:04:05.5+02:00": true,
	} {
		if _, err := Instant(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		_, _, bad := all(t, JSONLines(strings.NewReader(`{"at":"`+text+`"}`), client.Task{Queue: "q"}, nil))
		if (bad == nil) != ok {
			t.Errorf("at %q: %q", text, bad)
		}
	}
}

// TestOnlyWhatFailsIsReported: the batches behind one that fails are given up, and nothing is
// said of those that were surely not sent: why the first one failed would be the line before.
func TestOnlyWhatFailsIsReported(t *testing.T) {
	refused, sending := errors.New("the disk is nearly full"), make(chan struct{}, flying+2)
	to := Target{Name: unnamed, Send: func(ctx context.Context, tasks []client.Task) ([]client.Result, error) {
		if string(tasks[0].Payload[:1]) == "0" {
			<-sending // another one is on its way
			return nil, refused
		}
		sending <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	text := ""
	for n := range 4 {
		text += strings.Repeat(string(rune('0'+n)), maxBytes+1) + "\n"
	}
	var got []error
	err := Run(t.Context(), Lines(strings.NewReader(text), client.Task{}), to, func(b *Batch) bool {
		if b.Err != nil {
			got = append(got, b.Err)
		}
		return b.Err == nil
	})
	if err != nil || len(got) != 1 || !errors.Is(got[0], refused) {
		t.Errorf("%v, reported: %v", err, got)
	}
}
