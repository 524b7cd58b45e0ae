package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// documentedLog gives the events of docs/reference/logs.md with their levels and keys.
func documentedLog(t *testing.T) map[string][2][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][2][]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([a-z, ]+) \\| ([^|]*) \\| [^|]+ \\|$").FindAllStringSubmatch(string(text), -1) {
		keys := strings.FieldsFunc(row[3], func(r rune) bool { return r == '`' || r == ',' || r == ' ' || r == '–' })
		all[row[1]] = [2][]string{strings.Split(strings.ToUpper(row[2]), ", "), keys}
	}
	return all
}

// checkLog reads what a node has written: every line is one event of the
// documentation, with its level and its keys, the time and the node's name.
func checkLog(t *testing.T, node, log string) (events []string) {
	t.Helper()
	documented := documentedLog(t)
	lines := strings.SplitAfter(log, "\n")
	for _, line := range lines[:len(lines)-1] { // a kill may have cut the last one
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Errorf("%s wrote %q: %v", node, line, err)
			continue
		}
		event, _ := fields["msg"].(string)
		known, ok := documented[event]
		at, _ := fields["time"].(string)
		level, _ := fields["level"].(string)
		if _, err := time.Parse(time.RFC3339Nano, at); !ok || err != nil || fields["node"] != node || !slices.Contains(known[0], level) {
			t.Errorf("%s wrote %s, which the documentation has as %v", node, line, known)
		}
		for key := range fields {
			if !slices.Contains([]string{"time", "level", "msg", "node"}, key) && !slices.Contains(known[1], key) {
				t.Errorf("%s wrote %s, with the key %s", node, line, key)
			}
			if strings.Count(line, `,"`+key+`":`) > 1 {
				t.Errorf("%s wrote %s, with %s twice", node, line, key)
			}
		}
		events = append(events, event)
	}
	return events
}

// TestLogLinesAreAsDocumented reads all that a server says between its start and
// its end, with clients that make mistakes.
func TestLogLinesAreAsDocumented(t *testing.T) {
	s := ownServer(t, filepath.Join(t.TempDir(), "data"), "--log-level", "debug")
	for _, addr := range []string{s.addr, s.http} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("nonsense\r\n\r\nand more nonsense, longer than the head of any frame\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		_, _ = c.Read(make([]byte, 1000)) // an answer or the end: it has been looked at
		_ = c.Close()
	}
	if a := askOf(t, s.http, "GET", "/api/v1/ping", ""); a.code != http.StatusOK {
		t.Errorf("ping: %d", a.code)
	}
	if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("it ended with %d, %v", code, err)
	}
	events := checkLog(t, "n1", s.log.String())
	for _, want := range []string{"node.started", "server.ready", "register.leader", "server.stopping", "node.stopped", "server.stopped"} {
		if !slices.Contains(events, want) {
			t.Errorf("there is no %s among %v", want, events)
		}
	}
}

// TestClusterLogLines reads what three nodes say while one of them dies and comes
// back.
func TestClusterLogLines(t *testing.T) {
	thorough(t)
	c := startCompany(t, 3, "--log-level", "debug")
	n1, n2, n3 := c.all[0], c.all[1], c.all[2]
	n3.kill(t)
	n1.says(t, `"gossip.gone"`)
	n2.says(t, `"gossip.gone"`)
	if events := checkLog(t, "n3", n3.s.log.String()); !slices.Contains(events, "server.ready") {
		t.Errorf("n3 said %v", events)
	}
	n3.start(t)
	for _, p := range c.all {
		p.stop(t)
		if events := checkLog(t, p.name, p.s.log.String()); !slices.Contains(events, "server.stopped") {
			t.Errorf("%s said %v", p.name, events)
		}
	}
}
