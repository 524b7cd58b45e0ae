package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestHTTPCountsRequests looks at the metrics of the port.
func TestHTTPCountsRequests(t *testing.T) {
	good(t, "GET", "/api/v1/ping", "")
	bad(t, 405, "invalid_argument", "use GET", "POST", "/api/v1/ping", "{}")
	text := metrics(t, the.server)
	for _, want := range []string{`norn_http_requests_total{path="/api/v1/ping",status="200"}`, `norn_http_requests_total{path="/api/v1/ping",status="405"}`, "norn_http_connections "} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

// TestMetricsOfQueues: how much of a queue is in each state, and how long it waits, is
// what alarms and autoscalers go by.
func TestMetricsOfQueues(t *testing.T) {
	first := enqueue(t, "-q", "measured", "one")
	enqueue(t, "-q", "measured", "two", "--delay", "1h")
	ok(t, "queue", "pause", "measured")
	text := metrics(t, the.server)
	for _, want := range []string{
		`norn_queue_tasks{queue="measured",state="ready"} 1`, `norn_queue_tasks{queue="measured",state="scheduled"} 1`, `norn_queue_tasks{queue="measured",state="dead"} 0`,
		`norn_queue_paused{queue="measured"} 1`, `norn_queue_claims_waiting{queue="measured"} 0`, "norn_queue_metrics_cut 0",
		"norn_partitions 64", "norn_partitions_led 64", "# TYPE norn_task_wait_seconds histogram",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
	age := regexp.MustCompile(`(?m)^norn_queue_oldest_ready_seconds{queue="measured"} ([0-9.e-]+)$`).FindStringSubmatch(text)
	if age == nil || strings.Trim(age[1], "0.") == "" {
		t.Errorf("the oldest of it has the age %q", age)
	}
	ok(t, "task", "cancel", first)
	if text := metrics(t, the.server); !strings.Contains(text, "norn_queue_oldest_ready_seconds{queue=\"measured\"} 0\n") || !strings.Contains(text, `norn_queue_tasks{queue="measured",state="ready"} 0`) {
		t.Error("it has numbers as before the cancellation")
	}
	few := ownServer(t, t.TempDir(), "--metrics-queues", "1")
	for _, q := range []string{"a", "b"} {
		if r := nornWith(t, "", []string{"NORN_ADDR=" + few.addr}, "task", "enqueue", "-q", q, "x"); r.code != 0 {
			t.Fatal(r)
		}
	}
	if text := metrics(t, few); strings.Contains(text, `{queue="b"`) || !strings.Contains(text, `{queue="a"`) || !strings.Contains(text, "norn_queue_metrics_cut 1\n") {
		t.Errorf("of one queue: %s", text)
	}
}
