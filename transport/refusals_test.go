package transport

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"
)

// noted is a log that is read while it is written.
type noted struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

// TestStrangersDoNotFillTheLog: whatever they send and however often, there is a line a second,
// and none of them is left out of its count.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	var log noted
	began := time.Now()
	srv, ln := serve(t, Config{MaxConns: 50, Logger: slog.New(slog.NewTextHandler(&log, nil))}, &echo{})
	const strangers = 400
	for i := range strangers {
		nc, err := ln.Dial(context.Background(), "memory")
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		_, _ = nc.Write([]byte{0, 0, 0, byte(i%9 + 1), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}) // too short for a frame
		_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.Copy(io.Discard, nc) // until it is refused
	}
	srv.Close()
	most := int(time.Since(began)/time.Second) + 3 // with the first, and what is left at the end
	log.mu.Lock()
	defer log.mu.Unlock()
	sum, lines := 0, 0
	for _, found := range regexp.MustCompile(`msg=client\.refused .* times=(\d+)`).FindAllSubmatch(log.b.Bytes(), -1) {
		times, _ := strconv.Atoi(string(found[1]))
		sum, lines = sum+times, lines+1
	}
	if lines == 0 || lines > most || sum != strangers {
		t.Errorf("%d lines, at most %d, for %d of %d refusals", lines, most, sum, strangers)
	}
}
