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
type nornCluster struct{ program string }

const nornPort = 38711

func (n nornCluster) run(ctx context.Context, dir string, w work) (float64, error) {
	var servers processes
	defer func() { servers.stop() }()
	err := servers.start(dir, "dev", n.program, "dev", "--nodes", "3", "--data", filepath.Join(dir, "data"), "--base-port", strconv.Itoa(nornPort))
	if err != nil {
		return 0, err
	}
	ready := func() bool {
		out, err := os.ReadFile(filepath.Join(dir, "dev.log"))
		return err == nil && strings.Contains(string(out), "\nready")
	}
	if err := patience(ctx, ready); err != nil {
		return 0, err
	}
	scenario, figure := "enqueue", "enqueue_rate"
	if w.claim {
		scenario, figure = "claim", "claim_complete_rate"
	}
	addr := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", nornPort, nornPort+10, nornPort+20)
	out, err := exec.CommandContext(ctx, n.program, "bench", "--scenario", scenario, "--addr", addr, "--clients", "1", "--quiet", "-o", "json",
		"--producers", strconv.Itoa(producers), "--workers", strconv.Itoa(workers), "--payload", strconv.Itoa(payload),
		"--batch", strconv.Itoa(w.batch), "--tasks", strconv.Itoa(w.tasks)).Output()
	if err != nil {
		return 0, fmt.Errorf("norn bench: %w: %s", err, firstLine(out))
	}
	var report struct {
		Figures map[string]float64 `json:"figures"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return 0, fmt.Errorf("norn bench: %w", err)
	}
	if rate, ok := report.Figures[figure]; ok {
		return rate, nil
	}
	return 0, fmt.Errorf("norn bench did not say %s", figure)
}
