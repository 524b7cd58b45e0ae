package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

const typescriptClient = "../../clients/typescript"

// TestTypeScript runs the tests of clients/typescript against real servers, and what every
// client does against one that lies.
func TestTypeScript(t *testing.T) {
	beside(t)
	node := inPath(t, "node")
	if _, err := os.Stat(typescriptClient + "/node_modules"); err != nil {
		t.Skip("the packages of clients/typescript are not installed: (cd clients/typescript && npm ci)")
	}
	cert, key := certificate(t)
	plain := ownServer(t, t.TempDir(), "--http-listen", "127.0.0.1:0", "--eta", "100ms")
	secured := ownServer(t, t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--auth-token-file", write(t, "s3cret"))
	env := environment(
		"NORN_ADDR="+plain.addr, "NORN_HTTP=http://"+plain.http, "NORN_LIAR="+buildLiar(t),
		"NORN_TLS_ADDR="+secured.addr, "NORN_TLS_CA="+cert, "NORN_TEST_TOKEN=s3cret",
	)
	for _, step := range [][]string{{"typescript/bin/tsc", "-p", "tsconfig.json"}, {"vitest/vitest.mjs", "run"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
		cmd := exec.CommandContext(ctx, node, append([]string{"node_modules/" + step[0]}, step[1:]...)...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = typescriptClient, env, time.Second
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
		t.Logf("%s", out)
	}
}
