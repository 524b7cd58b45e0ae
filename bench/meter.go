package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// meter reads what servers have used so far, from their /metrics.
type meter struct {
	addresses []string
	client    http.Client
}

func newMeter(addresses []string) *meter {
	return &meter{addresses: addresses, client: http.Client{Timeout: 5 * time.Second}}
}

// usage is of all servers together since their starts.
type usage struct {
	seconds float64 // of processors
	syncs   float64 // rounds made durable
	sent    float64 // messages to other nodes
}

// read asks all of them. It fails when one does not say.
func (m *meter) read(ctx context.Context) (sum usage, err error) {
	if len(m.addresses) == 0 {
		return sum, fmt.Errorf("bench: no HTTP address of a server to ask for its processor time")
	}
	for _, a := range m.addresses {
		u, err := m.one(ctx, a)
		if err != nil {
			return sum, fmt.Errorf("bench: processor time of the server at %s: %w", a, err)
		}
		sum.seconds += u.seconds
		sum.syncs += u.syncs
		sum.sent += u.sent
	}
	return sum, nil
}

func (m *meter) one(ctx context.Context, address string) (usage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return usage{}, err
	}
	reply, err := m.client.Do(request)
	if err != nil {
		return usage{}, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return usage{}, fmt.Errorf("%s", reply.Status)
	}
	return parseUsage(io.LimitReader(reply.Body, 16<<20))
}

// parseUsage finds the figures in Prometheus' text.
func parseUsage(text io.Reader) (u usage, err error) {
	found := false
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		var to *float64
		switch name {
		case "process_cpu_seconds_total":
			to, found = &u.seconds, true
		case "norn_store_syncs_total":
			to = &u.syncs
		case "norn_peer_messages_sent_total":
			to = &u.sent
		}
		if !ok || to == nil {
			continue
		}
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return u, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := lines.Err(); err != nil {
		return u, err
	}
	if !found {
		return u, fmt.Errorf("it does not tell its processor time")
	}
	return u, nil
}
