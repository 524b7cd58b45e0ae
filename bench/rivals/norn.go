package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// nornCluster is three nodes of `norn dev`, measured by `norn bench`.
type nornCluster struct {
	program string
	// access has each request held to a role that allows the queues of norn bench and no others.
	access bool
}

const nornPort = 38711

func (n nornCluster) run(ctx context.Context, dir string, w work) (result, error) {
	var servers processes
	defer func() { servers.stop() }()
	dev := []string{"dev", "--nodes", "3", "--data", filepath.Join(dir, "data"), "--base-port", strconv.Itoa(nornPort)}
	root := filepath.Join(dir, "root-token")
	if n.access {
		if err := os.WriteFile(root, []byte("root-of-rivals\n"), 0o600); err != nil {
			return result{}, err
		}
		dev = append(dev, "--auth-token-file", root)
	}
	if err := servers.start(dir, "dev", n.program, dev...); err != nil {
		return result{}, err
	}
	ready := func() bool {
		out, err := os.ReadFile(filepath.Join(dir, "dev.log"))
		return err == nil && strings.Contains(string(out), "\nready")
	}
	if err := patience(ctx, ready); err != nil {
		out, _ := os.ReadFile(filepath.Join(dir, "dev.log"))
		return result{}, fmt.Errorf("%w; norn dev has said: %s", err, out[max(0, len(out)-2000):])
	}
	addr := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nornPort, nornPort+10, nornPort+20)
	args := []string{"bench", "--addr", addr, "--quiet", "-o", "json", "--payload", strconv.Itoa(payload), "--producers", strconv.Itoa(producers)}
	figure := "enqueue_rate"
	switch w.kind {
	case latency:
		args = append(args, "--scenario", "latency", "--workers", strconv.Itoa(latencyWorkers), "--rate", strconv.Itoa(w.rate), "--duration", fmt.Sprint(max(1, w.tasks/w.rate), "s"))
		figure = ""
	case claims:
		args = append(args, "--scenario", "claim", "--workers", strconv.Itoa(workers), "--batch", strconv.Itoa(w.batch), "--prefetch", strconv.Itoa(w.held(ahead)), "--tasks", strconv.Itoa(w.tasks))
		figure = "claim_complete_rate"
	default:
		args = append(args, "--scenario", "enqueue", "--batch", strconv.Itoa(w.batch), "--tasks", strconv.Itoa(w.tasks))
	}
	if n.access {
		token, err := n.token(ctx, addr, root)
		if err != nil {
			return result{}, err
		}
		args = append(args, "--auth-token", token)
	}
	out, err := exec.CommandContext(ctx, n.program, args...).Output()
	if err != nil {
		return result{}, fmt.Errorf("norn bench: %w: %s", err, firstLine(out))
	}
	var report struct {
		Figures map[string]float64 `json:"figures"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return result{}, fmt.Errorf("norn bench: %w", err)
	}
	f := report.Figures
	if _, ok := f[figure]; figure != "" && !ok {
		return result{}, fmt.Errorf("norn bench did not say %s", figure)
	}
	return result{
		rate: f[figure], p50: f["enqueue_to_claim_p50"], p99: f["enqueue_to_claim_p99"], servers: f["servers_processor_per_task"], load: f["load_processor_per_task"],
		syncs: f["synced_rounds_per_task"], between: f["peer_messages_per_task"],
	}, nil
}

// token makes a role for the queues of norn bench, and a token with it.
func (n nornCluster) token(ctx context.Context, addr, root string) (token string, err error) {
	for _, args := range [][]string{
		{"role", "set", "bench", "--allow", "enqueue,work,see,read:bench-*"},
		{"token", "create", "--name", "bench", "--role", "bench"},
	} {
		out, err := exec.CommandContext(ctx, n.program, append([]string{"access", "--addr", addr, "--auth-token-file", root}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("norn access %s: %w: %s", args[0], err, firstLine(out))
		}
		token = firstLine(out)
	}
	return token, nil
}
