package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/record"
)

// Program has the program itself verify and count, as an operator does.
func (h *Hand) Program() {
	if out, err := h.norn("cluster", "verify", "--wait", "40s"); err != nil {
		h.Found("convergence", "norn cluster verify through %s: %v\n%s", h.Node.Name, err, out)
	}
	out, err := h.norn("task", "count", "-o", "json")
	var got struct{ Total json.Number }
	if err == nil {
		err = json.Unmarshal([]byte(out), &got)
	}
	if err != nil {
		h.Found("stuck", "norn task count through %s: %v", h.Node.Name, err)
		return
	}
	l := h.Lab
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Counts = append(l.Counts, fmt.Sprintf("%s %s", h.Node.Name, got.Total))
}

// norn runs a command of the program through the client's node.
func (h *Hand) norn(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Cfg.Norn, append([]string{"--addr", h.Node.Dial}, args...)...)
	cmd.Env = append(os.Environ(), "NORN_AUTH_TOKEN="+h.Token)
	if h.Pki != nil {
		own := filepath.Join(h.Pki.Dir, "client")
		cmd.Env = append(cmd.Env, "NORN_TLS_CA="+filepath.Join(h.Pki.Dir, "servers.pem"), "NORN_TLS_CERT="+own+".pem", "NORN_TLS_KEY="+own+"-key.pem")
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %.300s", err, exit.Stderr)
	}
	return string(out), err
}

// Count reads the counters of everything.
func (h *Hand) Count(ctx context.Context) {
	asked := h.Rec.Invoke(h.Process, &history.Event{Func: history.Count})
	got, err := h.Client.Count(ctx, "")
	answer := history.Event{}
	if err == nil {
		answer.Tallies = record.Tallies(got)
	} else {
		h.Found("stuck", "%s does not count: %v", h.Node.Name, err)
	}
	h.Rec.End(asked, err, answer)
}

// List reads all tasks.
func (h *Hand) List(ctx context.Context) (shown []history.Item, err error) {
	asked := h.Rec.Invoke(h.Process, &history.Event{Func: history.List})
	answer := history.Event{}
	for t, bad := range h.Client.List(ctx, client.Filter{PageSize: 1000}) {
		if bad != nil {
			err = bad
			break
		}
		answer.Items = append(answer.Items, record.Seen(t))
	}
	h.Rec.End(asked, err, answer)
	return answer.Items, err
}
