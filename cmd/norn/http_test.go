package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// asked is an answer of the HTTP port.
type asked struct {
	code   int
	header http.Header
	raw    string
	body   map[string]any // nil when it is no object
}

// at goes down into the body by names and indices.
func (a asked) at(path ...any) any {
	var v any = a.body
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func (a asked) text(path ...any) string {
	s, _ := a.at(path...).(string)
	return s
}

// ask sends a request to the shared server; a body makes it JSON. Headers are
// name and value in turns.
func ask(t *testing.T, verb, path, body string, headers ...string) asked {
	t.Helper()
	return askOf(t, the.server.http, verb, path, body, headers...)
}

// askOf asks the server at an address.
func askOf(t *testing.T, addr, verb, path, body string, headers ...string) asked {
	t.Helper()
	return askWith(t, http.DefaultClient, verb, "http://"+addr+path, body, headers...)
}

// askWith asks as a client does.
func askWith(t *testing.T, by *http.Client, verb, url, body string, headers ...string) asked {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := request(ctx, t, verb, url, body, headers...)
	answer, err := by.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", verb, url, err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", verb, url, err)
	}
	a := asked{code: answer.StatusCode, header: answer.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body) // what is no object shows by that
	return a
}

func request(ctx context.Context, t *testing.T, verb, url, body string, headers ...string) *http.Request {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, verb, url, from)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// good asks for something that must succeed, with an answer as the API describes
// it.
func good(t *testing.T, verb, path, body string) asked {
	t.Helper()
	a := ask(t, verb, path, body)
	if a.code != http.StatusOK {
		t.Fatalf("%s %s %s: %d %s", verb, path, body, a.code, a.raw)
	}
	described(t).check(t, verb, path, a)
	return a
}

// bad asks for something that must be refused: with this status, this kind of
// error, and some text.
func bad(t *testing.T, code int, kind, text, verb, path, body string, headers ...string) asked {
	t.Helper()
	a := ask(t, verb, path, body, headers...)
	if a.code != code || a.text("error", "kind") != kind || !strings.Contains(a.text("error", "message"), text) || a.text("error", "message") == "" ||
		a.header.Get("Content-Type") != "application/problem+json" || a.text("detail") != a.text("error", "message") || a.text("type") != "urn:norn:error:"+kind {
		t.Errorf("%s %s %.100s: %d %s, want %d %s %q", verb, path, body, a.code, a.raw, code, kind, text)
	}
	return a
}

func payload(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// TestHTTPLifeOfATask takes tasks through all their operations, over HTTP alone.
func TestHTTPLifeOfATask(t *testing.T) {
	added := good(t, "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/life","payload":"`+payload("one")+`","priority":5},{"queue":"http/life"}]}`)
	first, second := added.text("results", 0, "receipt", "id"), added.text("results", 1, "receipt", "id")
	if a := good(t, "POST", "/api/v1/tasks", `{"tasks":[{"id":"`+first+`","queue":"http/life","payload":"`+payload("one")+`","priority":5}]}`); a.at("results", 0, "receipt", "existed") != true {
		t.Errorf("the same task again: %s", a.raw)
	}
	bad(t, 409, "already_exists", first, "POST", "/api/v1/tasks", `{"tasks":[{"id":"`+first+`","queue":"http/life"}]}`)

	if a := good(t, "GET", "/api/v1/tasks?queue=http/life&states=ready&states=claimed&limit=1", ""); a.text("tasks", 0, "id") != first || a.text("next_cursor") == "" {
		t.Errorf("the first page: %s", a.raw)
	} else if b := good(t, "GET", "/api/v1/tasks?queue=http/life&limit=10&cursor="+a.text("next_cursor"), ""); b.text("tasks", 0, "id") != second {
		t.Errorf("the second page: %s", b.raw)
	}
	if a := good(t, "GET", "/api/v1/tasks/count?queue=http/life", ""); a.text("total", "ready") != "2" {
		t.Errorf("counted %s", a.raw)
	}

	claimed := good(t, "POST", "/api/v1/tasks/claim", `{"queues":["http/life"],"max_tasks":2,"worker":"curl"}`)
	if claimed.text("grants", 0, "task", "id") != first || claimed.text("grants", 0, "task", "payload") != payload("one") || claimed.text("grants", 1, "task", "id") != second {
		t.Fatalf("claimed %s", claimed.raw)
	}
	mine := `"id":"` + first + `","token":"` + claimed.text("grants", 0, "token") + `"`
	other := `"id":"` + second + `","token":"` + claimed.text("grants", 1, "token") + `"`
	good(t, "POST", "/api/v1/tasks/renew", `{"claims":[{`+mine+`}],"lease_seconds":60}`)
	for i := range 2 {
		good(t, "POST", "/api/v1/tasks/update", fmt.Sprintf(`{%s,"seq":%d,"data":"%s"}`, mine, i, payload(fmt.Sprint("step ", i))))
	}
	good(t, "POST", "/api/v1/tasks/release", `{"claims":[{`+other+`}]}`)
	if a := good(t, "GET", "/api/v1/tasks/"+second+"/explain", ""); a.text("state") != "ready" {
		t.Errorf("explained %s", a.raw)
	}
	bad(t, 409, "claim_lost", "", "POST", "/api/v1/tasks/fail", `{"failures":[{"id":"`+second+`","token":1}]}`)
	again := good(t, "POST", "/api/v1/tasks/claim", `{"queues":["http/life"]}`)
	other = `"id":"` + second + `","token":"` + again.text("grants", 0, "token") + `"`
	if a := good(t, "POST", "/api/v1/tasks/fail", `{"failures":[{`+other+`,"error":"no","discard":true}]}`); a.text("results", 0, "state") != "dead" {
		t.Errorf("failed: %s", a.raw)
	}
	good(t, "POST", "/api/v1/tasks/retry", `{"ids":["`+second+`"]}`)
	good(t, "POST", "/api/v1/tasks/cancel", `{"ids":["`+second+`"],"reason":"enough"}`)
	good(t, "POST", "/api/v1/tasks/complete", `{"completions":[{`+mine+`,"seq":2,"result":"`+payload("done")+`"}]}`)

	if a := good(t, "GET", "/api/v1/tasks/"+first, ""); a.text("task", "state") != "completed" || a.text("task", "result") != payload("done") || a.text("task", "claims", 0, "outcome") != "completed" {
		t.Errorf("in the end: %s", a.raw)
	}
	if a := good(t, "GET", "/api/v1/tasks/"+first+"/log?limit=1", ""); a.text("updates", 0, "data") != payload("step 0") || a.at("more") != true {
		t.Errorf("the log: %s", a.raw)
	}
	several := good(t, "POST", "/api/v1/tasks/cancel", `{"ids":["`+first+`","`+second+`"]}`)
	if several.text("results", 0, "error", "kind") != "conflict" || several.at("results", 1, "error") != nil {
		t.Errorf("of several items each speaks for itself: %s", several.raw)
	}
}

// TestHTTPOperators asks for what people who look after a cluster ask for.
func TestHTTPOperators(t *testing.T) {
	if a := good(t, "GET", "/api/v1/hello", ""); a.text("node") != "n1" || a.text("server_version") != "1.2.3-test" {
		t.Errorf("hello: %s", a.raw)
	}
	good(t, "GET", "/api/v1/ping", "")
	good(t, "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/op","key":"k"}]}`)
	if a := good(t, "GET", "/api/v1/tasks/key?queue=http/op&key=k", ""); a.text("state") != "ready" || len(a.text("id")) != 27 {
		t.Errorf("the key: %s", a.raw)
	}
	const queue = "/api/v1/queues/http%2Fop"
	version := good(t, "PATCH", queue, `{"settings":{"paused":true,"note":"deploy"},"fields":["paused","note"]}`).text("queues", 0, "version")
	if a := good(t, "GET", queue, ""); a.at("queues", 0, "settings", "paused") != true || a.text("queues", 0, "name") != "http/op" {
		t.Errorf("the queue: %s", a.raw)
	}
	bad(t, 409, "conflict", "", "PATCH", queue, `{"settings":{},"fields":["paused"],"if_version":"9999"}`)
	bad(t, 400, "invalid_argument", "name is another one than in the path", "PATCH", queue, `{"name":"other","fields":["paused"]}`)
	good(t, "PATCH", queue, `{"name":"http/op","settings":{},"fields":["paused"],"if_version":`+version+`}`)
	good(t, "GET", "/api/v1/queues?names=http/op&names=http/op", "")

	if a := good(t, "POST", "/api/v1/schedules", `{"changes":[{"name":"http-op","put":{"spec":{"cron":"0 0 1 1 *","task":{"queue":"http/op"}}}}]}`); a.at("results", 0, "created") != true {
		t.Errorf("made a schedule: %s", a.raw)
	}
	if a := good(t, "GET", "/api/v1/schedules/http-op?history=true", ""); a.text("schedules", 0, "spec", "cron") != "0 0 1 1 *" {
		t.Errorf("the schedule: %s", a.raw)
	}
	bad(t, 400, "invalid_argument", "", "POST", "/api/v1/schedules", `{"changes":[{"name":"http-op","put":{"spec":{"cron":"61 * * * *","task":{"queue":"http/op"}}}}]}`)
	good(t, "POST", "/api/v1/schedules", `{"changes":[{"name":"http-op","delete":{}}]}`)
	good(t, "GET", "/api/v1/schedules", "")

	good(t, "GET", "/api/v1/workers", "")
	if a := good(t, "GET", "/api/v1/cluster", ""); a.text("nodes", 0, "name") != "n1" {
		t.Errorf("the cluster: %s", a.raw)
	}
	if a := good(t, "GET", "/api/v1/cluster/verify?partitions=1&partitions=2", ""); a.at("partitions", 1, "id") != 2.0 {
		t.Errorf("verified: %s", a.raw)
	}
	good(t, "POST", "/api/v1/cluster", `{"rebalance":{},"dry_run":true}`)
	good(t, "POST", "/api/v1/cluster", `{"set_replicas":{"replicas":5},"dry_run":true}`)
	bad(t, 400, "invalid_argument", "", "POST", "/api/v1/cluster", `{"set_replicas":{}}`)
}

// TestHTTPNotThere asks for what is not there.
func TestHTTPNotThere(t *testing.T) {
	const id = "37dGamhT6KhgeCdJ3yaFwZAimIC"
	for _, path := range []string{"", "/log", "/explain"} {
		bad(t, 404, "not_found", id, "GET", "/api/v1/tasks/"+id+path, "")
		bad(t, 400, "invalid_argument", "id", "GET", "/api/v1/tasks/nonsense"+path, "")
	}
	bad(t, 404, "not_found", "", "GET", "/api/v1/queues/nobody", "")
	bad(t, 404, "not_found", "", "GET", "/api/v1/schedules/nobody", "")
	bad(t, 404, "not_found", "", "POST", "/api/v1/workers/nobody", `{"action":"drain"}`)
	bad(t, 404, "not_found", "", "POST", "/api/v1/tasks/cancel", `{"ids":["`+id+`"]}`)
	for _, path := range []string{"/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v2/tasks", "/api/v1/tasks/" + id + "/nothing", "/api/v1/tasks/", "/api/v1/queues/http/op"} {
		if a := ask(t, "GET", path, ""); a.code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.code, a.raw)
		}
	}
	bad(t, 404, "not_found", "openapi.json", "POST", "/api/v1/nothing", "{}")
}

// TestHTTPRefusesEveryOtherForm sends each path that there is what it is not for:
// other verbs, types, forms and sizes. Nothing comes of it, though the bodies hold
// what would be carried out.
func TestHTTPRefusesEveryOtherForm(t *testing.T) {
	before := good(t, "GET", "/api/v1/tasks/count", "").text("total", "total")
	const enqueue = `{"tasks":[{"queue":"http/never"}]}`
	for path, verbs := range described(t).paths {
		path = strings.ReplaceAll(path, "{name}", "never")
		for _, verb := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if _, ok := verbs[strings.ToLower(strings.Replace(verb, "HEAD", "GET", 1))]; ok {
				continue
			}
			a := ask(t, verb, path, enqueue)
			if a.code != http.StatusMethodNotAllowed || a.header.Get("Allow") == "" || verb != "HEAD" && a.text("error", "kind") != "invalid_argument" {
				t.Errorf("%s %s: %d %q %s", verb, path, a.code, a.header.Get("Allow"), a.raw)
			}
			for allowed := range strings.SplitSeq(a.header.Get("Allow"), ", ") {
				if _, ok := verbs[strings.ToLower(allowed)]; !ok {
					t.Errorf("%s allows %s", path, allowed)
				}
			}
		}
		if _, ok := verbs["get"]; ok {
			bad(t, 400, "invalid_argument", "no body", "GET", path, enqueue)
			bad(t, 400, "invalid_argument", `unknown name "nonsense"`, "GET", path+"?nonsense=1", "")
			bad(t, 400, "invalid_argument", "invalid URL escape", "GET", path+"?queue=%zz", "")
			bad(t, 400, "invalid_argument", "semicolons", "GET", path+"?a=1;b=2", "")
		}
		for verb := range verbs {
			if verb = strings.ToUpper(verb); verb == "GET" {
				continue
			}
			for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ";", "application/json; charset", "application/json; charset=utf-16", "application/json; charset=iso-8859-1"} {
				bad(t, 415, "invalid_argument", "application/json", verb, path, enqueue, "Content-Type", kind)
			}
			bad(t, 415, "invalid_argument", "no Content-Encoding", verb, path, enqueue, "Content-Encoding", "gzip")
			bad(t, 400, "invalid_argument", "no parameters", verb, path+"?queue=never", enqueue)
			for body, want := range map[string]string{
				`{"nonsense":1}`: `line 1, column 12: unknown name "nonsense"`, `{`: "ends too early", `[]`: "an array", `"x"`: "a string", `{} {}`: "follows",
				"{\n\t'a': 1}": "line 2, column 2: invalid character", strings.Repeat("[", 100_000): "an array",
			} {
				bad(t, 400, "invalid_argument", want, verb, path, body)
			}
			bad(t, 413, "invalid_argument", "over the limit", verb, path, `{"a":[`+strings.Repeat(`{},`, 1_000_000)+`{}]}`)
		}
	}
	bad(t, 400, "invalid_argument", "over the limit of 10000", "POST", "/api/v1/tasks", `{"tasks":[`+strings.Repeat(`{},`, 10_000)+`{}]}`)
	bad(t, 400, "invalid_argument", "queue name", "POST", "/api/v1/tasks", `{"tasks":[{"queue":"no spaces"}]}`)
	bad(t, 400, "invalid_argument", "priority", "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/never","priority":2147483648}]}`)
	if after := good(t, "GET", "/api/v1/tasks/count", "").text("total", "total"); after != before {
		t.Errorf("there were %s tasks, and are %s", before, after)
	}
}

// TestHTTPLargeBodies sends a full payload, which is taken, and a body over every
// limit, which is not read.
func TestHTTPLargeBodies(t *testing.T) {
	large := payload(strings.Repeat("x", 1<<20))
	added := good(t, "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/large","payload":"`+large+`"}]}`)
	if a := good(t, "GET", "/api/v1/tasks/"+added.text("results", 0, "receipt", "id"), ""); a.text("task", "payload") != large {
		t.Errorf("it came back as %d bytes", len(a.raw))
	}
	bad(t, 400, "invalid_argument", "over the limit of 1048576 bytes", "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/large","payload":"`+payload(strings.Repeat("x", 1<<20+1))+`"}]}`)
	c, err := net.Dial("tcp", the.server.http)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", 1<<40); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge || !answer.Close {
		t.Errorf("a terabyte: %v, %v", answer, err)
	}
}

// TestHTTPWaitingClaim has a claim wait for a task, and another one go away: that
// one's task is free for whoever comes next.
func TestHTTPWaitingClaim(t *testing.T) {
	granted := make(chan asked)
	go func() {
		granted <- ask(t, "POST", "/api/v1/tasks/claim", `{"queues":["http/wait"],"wait_seconds":50}`)
	}()
	waits := func(n float64) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			a := ask(t, "GET", "/api/v1/queues/http%2Fwait", "")
			if got, _ := a.at("queues", 0, "waiting_claims").(float64); a.code == http.StatusOK && got == n {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("not %v claims wait: %s", n, a.raw)
			}
		}
	}
	good(t, "PATCH", "/api/v1/queues/http%2Fwait", `{"settings":{"note":"x"},"fields":["note"]}`)
	waits(1)
	good(t, "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/wait"}]}`)
	if a := <-granted; a.text("grants", 0, "task", "queue") != "http/wait" {
		t.Errorf("the one that waited got %d %s", a.code, a.raw)
	}

	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+the.server.http+"/api/v1/tasks/claim", strings.NewReader(`{"queues":["http/wait"],"wait_seconds":50}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	gone := make(chan error)
	go func() {
		_, err := http.DefaultClient.Do(r) //nolint:bodyclose // there is none
		gone <- err
	}()
	waits(1)
	leave()
	if err := <-gone; err == nil {
		t.Error("a claim that nobody waits for any more was answered")
	}
	waits(0)
	good(t, "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/wait"}]}`)
	if a := good(t, "POST", "/api/v1/tasks/claim", `{"queues":["http/wait"]}`); len(a.at("grants").([]any)) != 1 {
		t.Errorf("the task went to somebody who had gone: %s", a.raw)
	}
	same := `{"queues":["http/wait"],"session":"` + payload("0123456789abcdef") + `","request_no":1}`
	good(t, "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/wait"}]}`)
	one, two := good(t, "POST", "/api/v1/tasks/claim", same), good(t, "POST", "/api/v1/tasks/claim", same)
	if id := one.text("grants", 0, "task", "id"); id == "" || two.text("grants", 0, "task", "id") != id || two.text("grants", 0, "token") != one.text("grants", 0, "token") {
		t.Errorf("the same claim again: %s, then %s", one.raw, two.raw)
	}
}

// TestHTTPEvents follows a task's log until it is finished, and again from the
// middle.
func TestHTTPEvents(t *testing.T) {
	id := good(t, "POST", "/api/v1/tasks", `{"tasks":[{"queue":"http/events"}]}`).text("results", 0, "receipt", "id")
	token := good(t, "POST", "/api/v1/tasks/claim", `{"queues":["http/events"]}`).text("grants", 0, "token")
	mine := `"id":"` + id + `","token":` + token
	follow := func(last string) (*http.Response, *bufio.Scanner) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+the.server.http+"/api/v1/tasks/"+id+"/log", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html, text/event-stream;q=0.9")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%v, %v", answer, err)
		}
		return answer, bufio.NewScanner(answer.Body)
	}
	next := func(s *bufio.Scanner) (event, eventID, data string) {
		for s.Scan() && (s.Text() != "" || event == "") {
			name, value, _ := strings.Cut(s.Text(), ": ")
			switch name {
			case "event":
				event = value
			case "id":
				eventID = value
			case "data":
				data = value
			}
		}
		return event, eventID, data
	}
	answer, lines := follow("")
	for i := range 3 {
		good(t, "POST", "/api/v1/tasks/update", fmt.Sprintf(`{%s,"seq":%d,"data":"%s"}`, mine, i, payload(fmt.Sprint(i))))
		if event, at, data := next(lines); event != "update" || at != fmt.Sprint(token, ":", i) || !strings.Contains(data, `"data":"`+payload(fmt.Sprint(i))+`"`) {
			t.Fatalf("event %d: %s %s %s", i, event, at, data)
		}
	}
	good(t, "POST", "/api/v1/tasks/complete", `{"completions":[{`+mine+`,"auto_seq":true}]}`)
	if event, _, data := next(lines); event != "end" || data != `{"state":"completed"}` || lines.Scan() {
		t.Errorf("in the end: %s %s", event, data)
	}
	_ = answer.Body.Close()
	answer, lines = follow(token + ":1")
	if event, at, _ := next(lines); event != "update" || at != token+":2" {
		t.Errorf("after the second: %s %s", event, at)
	}
	_ = answer.Body.Close()
	bad(t, 400, "invalid_argument", "TOKEN:SEQ", "GET", "/api/v1/tasks/"+id+"/log", "", "Accept", "text/event-stream", "Last-Event-ID", "x")
	bad(t, 404, "not_found", "", "GET", "/api/v1/tasks/37dGamhT6KhgeCdJ3yaFwZAimIC/log", "", "Accept", "text/event-stream")
}

// TestHTTPOtherSites sends what only browsers send on behalf of others.
func TestHTTPOtherSites(t *testing.T) {
	const enqueue = `{"tasks":[{"queue":"http/csrf"}]}`
	bad(t, 403, "permission_denied", "another site", "POST", "/api/v1/tasks", enqueue, "Origin", "https://evil.example")
	bad(t, 403, "permission_denied", "another site", "POST", "/api/v1/tasks", enqueue, "Sec-Fetch-Site", "cross-site")
	for _, host := range []string{"evil.example", "evil.example:7713", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost", "evil-localhost:7713"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+the.server.http+"/api/v1/tasks", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("as %s: %d", host, answer.StatusCode)
		}
		_ = answer.Body.Close()
	}
	if a := good(t, "GET", "/api/v1/tasks?queue=http/csrf", ""); len(a.at("tasks").([]any)) != 0 {
		t.Errorf("a page of another site has made a task: %s", a.raw)
	}
	if a := ask(t, "POST", "/api/v1/tasks", enqueue, "Origin", "http://"+the.server.http, "Content-Type", "Application/JSON; charset=utf-8"); a.code != http.StatusOK {
		t.Errorf("a page of its own: %d %s", a.code, a.raw)
	}
}

// description is /openapi.json.
type description struct {
	paths   map[string]map[string]any
	schemas map[string]any
}

func described(t *testing.T) description {
	t.Helper()
	var d struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(ask(t, "GET", "/openapi.json", "").raw), &d); err != nil || len(d.Paths) == 0 {
		t.Fatalf("/openapi.json: %v", err)
	}
	return description{d.Paths, d.Components.Schemas}
}

// route is the path as it is described.
func (d description) route(path string) string {
	if _, ok := d.paths[path]; ok {
		return path
	}
	for described := range d.paths {
		before, after, variable := strings.Cut(described, "{name}")
		middle, under := strings.CutPrefix(path, before)
		if middle, ends := strings.CutSuffix(middle, after); variable && under && ends && middle != "" && !strings.Contains(middle, "/") {
			return described
		}
	}
	return ""
}

// check compares an answer with what is described.
func (d description) check(t *testing.T, verb, path string, a asked) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	schema := d.paths[d.route(path)][strings.ToLower(verb)]
	for _, name := range []string{"responses", "200", "content", "application/json", "schema"} {
		m, _ := schema.(map[string]any)
		schema = m[name]
	}
	if schema == nil {
		t.Fatalf("%s %s is not described", verb, path)
	}
	d.fits(t, schema.(map[string]any), a.body, verb+" "+path)
}

// fits checks a value against the few words of JSON Schema that are used.
func (d description) fits(t *testing.T, schema map[string]any, v any, where string) {
	t.Helper()
	if name, ok := schema["$ref"].(string); ok {
		schema, _ = d.schemas[strings.TrimPrefix(name, "#/components/schemas/")].(map[string]any)
	}
	if either, ok := schema["anyOf"].([]any); ok {
		if v == nil {
			return
		}
		schema = either[0].(map[string]any)
		d.fits(t, schema, v, where)
		return
	}
	is := map[string]bool{}
	switch v := v.(type) {
	case map[string]any:
		is["object"] = true
		members, _ := schema["properties"].(map[string]any)
		for name, member := range v {
			s, ok := members[name].(map[string]any)
			if !ok {
				s, ok = schema["additionalProperties"].(map[string]any)
			}
			if !ok {
				t.Errorf("%s.%s is not described", where, name)
				continue
			}
			d.fits(t, s, member, where+"."+name)
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			asked, _ := members[name].(map[string]any)
			if _, ok := v[name]; !ok && !strings.HasPrefix(name, "further") && asked["writeOnly"] == nil { // those are there where they say something
				t.Errorf("%s.%s is missing", where, name)
			}
		}
	case []any:
		is["array"] = true
		for i, item := range v {
			d.fits(t, schema["items"].(map[string]any), item, fmt.Sprint(where, "[", i, "]"))
		}
	case string:
		is["string"] = true
		if names, ok := schema["enum"].([]any); ok && !slices.Contains(names, any(v)) {
			t.Errorf("%s is %q", where, v)
		}
	case float64:
		is["number"], is["integer"] = true, v == float64(int64(v))
	case bool:
		is["boolean"] = true
	}
	if kind, _ := schema["type"].(string); !is[kind] {
		t.Errorf("%s is %v, not of type %v", where, v, schema["type"])
	}
}
