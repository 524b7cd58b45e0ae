package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
)

func TestPrintConfig(t *testing.T) {
	r := nornWith(t, "", []string{"NORN_SERVER_ETA=2s"}, "server", "--print-config", "--replicas", "5", "--pprof")
	for _, want := range []string{"eta: 2s\n", "buffer: 2s\n", "replicas: 5\n", "name: 127.0.0.1:7712\n", "max-payload: 1MiB\n", "pprof: true\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("missing %q in\n%s", want, r.out)
		}
	}
	if again := norn(t, "server", "--print-config", "--config", write(t, r.out)); again.out != r.out {
		t.Errorf("printed again:\n%s\nwas\n%s", again.out, r.out)
	}
	args := []string{"server", "--print-config", "--replicas", "5", "--pprof"}
	got := decode[map[string]any](t, args...)
	if got["eta"] != "5s" || got["replicas"] != 5. || got["pprof"] != true || got["join"] != "" || got["retry-multiplier"] != 2. || got["max-payload"] != "1MiB" {
		t.Errorf("as JSON: %v", got)
	}
	if plain := ok(t, args...); ok(t, "server", "--print-config", "--config", write(t, norn(t, append(args, "-o", "json")...).out)) != plain {
		t.Error("the JSON is not taken as a file")
	}
}

func TestHTTPPort(t *testing.T) {
	for path, want := range map[string]string{
		"/livez": "ok\n", "/readyz": "enqueue: true\nclaim: true\ncopies: true\nrestart: false\n", "/readyz?role=claim": "claim: true", "/metrics": "norn_tasks_enqueued_total",
	} {
		r, err := http.Get("http://" + the.server.http + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %.200s, %v", path, r.StatusCode, body, err)
		}
		_ = r.Body.Close()
	}
}

func TestPortInUse(t *testing.T) {
	dir := t.TempDir()
	refused(t, 1, "address already in use; stop the process", "server", "--data", filepath.Join(dir, "a"), "--listen", the.server.addr, "--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
	refused(t, 1, "address already in use; stop the process", "server", "--data", filepath.Join(dir, "b"), "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--http-listen", the.server.http)
	for _, sub := range []string{"a", "b"} {
		if _, err := os.Stat(filepath.Join(dir, sub)); !os.IsNotExist(err) {
			t.Errorf("%s: a server that cannot listen has made its directory: %v", sub, err)
		}
	}
}

// TestSecondServer starts a second server on the directory of a running one,
// and one under another name.
func TestSecondServer(t *testing.T) {
	data := t.TempDir()
	s := ownServer(t, data)
	to := []string{"NORN_ADDR=" + s.addr}
	start := []string{"server", "--data", data, "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--log-level", "error"}
	r := nornWith(t, "", nil, append(start, "--name", "n1")...)
	if r.code != 1 || !strings.HasPrefix(r.err, "norn: ") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("a second server: %+v", r)
	}
	if r := nornWith(t, "", to, "task", "enqueue", "-q", "q", "x"); r.code != 0 {
		t.Errorf("the first one afterwards: %+v", r)
	}
	if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("SIGTERM: exit %d, %v", code, err)
	}
	if r := nornWith(t, "", nil, append(start, "--name", "n2")...); r.code != 1 || !strings.Contains(r.err, `belongs to node "n1"`) {
		t.Errorf("under another name: %+v", r)
	}
}

// TestTasksSurviveKill kills a server with SIGKILL and starts it again.
func TestTasksSurviveKill(t *testing.T) {
	data := t.TempDir()
	s := ownServer(t, data)
	r := nornWith(t, strings.Repeat("x\n", 500), []string{"NORN_ADDR=" + s.addr}, "task", "enqueue", "-q", "q", "--lines", "-")
	if r.code != 0 {
		t.Fatalf("got %+v", r)
	}
	if _, err := s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s = ownServer(t, data)
	listed := nornWith(t, "", []string{"NORN_ADDR=" + s.addr}, "task", "list", "-q", "q", "--all", "-o", "jsonl")
	if n := strings.Count(listed.out, "\n"); n != 500 {
		t.Errorf("%d of 500 tasks are left: %s", n, listed.err)
	}
	for _, id := range strings.Fields(r.out) {
		if !strings.Contains(listed.out, id) {
			t.Fatalf("%s was acknowledged and is gone", id)
		}
	}
}

// TestTwoSignals sends signals to this process.
func TestTwoSignals(t *testing.T) {
	ctx, now, done := cli.TwoSignals(t.Context())
	defer done()
	wait := func(what string, c <-chan struct{}) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-c:
		case <-time.After(patience):
			t.Fatalf("%s: nothing happens", what)
		}
	}
	wait("the first signal", ctx.Done())
	select {
	case <-now:
		t.Error("the first signal counts twice")
	default:
	}
	wait("the second signal", now)
}

// TestServerEndsWhileItStarts: a signal ends it in order, however far it is; also
// one that waits for nodes it is to join, and one that is told twice.
func TestServerEndsWhileItStarts(t *testing.T) {
	nobody := freePeerAddress(t)
	for _, args := range [][]string{nil, {"--join", nobody}} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			s, err := launch(append([]string{"--data", t.TempDir(), "--name", "n1", "--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0"}, args...)...)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "it says something", func() bool { return s.log.String() != "" })
			_ = s.cmd.Process.Signal(sig) // the second one is end's
			code, err := s.end(sig)
			if errors.Is(err, os.ErrProcessDone) { // the first was enough
				<-s.done
				code, err = s.cmd.ProcessState.ExitCode(), nil
			}
			if code != 0 || err != nil {
				t.Errorf("%v, %v: exit %d, %v:\n%s", args, sig, code, err, s.log.String())
			}
		}
	}
}

// TestStopLetsWaitersGo stops a server while a claim waits on it.
func TestStopLetsWaitersGo(t *testing.T) {
	s := ownServer(t, t.TempDir())
	c, err := client.Dial(t.Context(), []string{s.addr}, client.WithTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() {
		_, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"q"}, Wait: time.Minute})
		waited <- err
	}()
	eventually(t, "the claim waits", func() bool {
		return strings.Contains(metrics(t, s), "norn_requests_waiting 1\n")
	})
	began := time.Now()
	if code, err := s.end(syscall.SIGINT); code != 0 || err != nil {
		t.Errorf("exit %d, %v:\n%s", code, err, s.log.String())
	}
	// Those that do not go are cut off after ten seconds.
	if took := time.Since(began); timed() && took > 8*time.Second {
		t.Errorf("it took %v:\n%s", took, s.log.String())
	}
	cancel()
	<-waited
}

// TestStopTimeout: a request that does not come to its end holds a server that stops
// up for no longer than it was told.
func TestStopTimeout(t *testing.T) {
	s := ownServer(t, t.TempDir(), "--stop-timeout", "100ms")
	c, err := net.Dial("tcp", s.http)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil { // it waits for the body
		t.Fatal(err)
	}
	began := time.Now()
	if code, err := s.end(syscall.SIGTERM); code != 0 || err != nil {
		t.Errorf("exit %d, %v:\n%s", code, err, s.log.String())
	}
	if took := time.Since(began); timed() && took > 8*time.Second { // by itself it would take ten
		t.Errorf("it took %v", took)
	}
}

// metrics are those of now: a reading is shared for a second.
func metrics(t *testing.T, s *server) string {
	t.Helper()
	<-time.After(1100 * time.Millisecond)
	r, err := http.Get("http://" + s.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAuthToken(t *testing.T) {
	s := ownServer(t, t.TempDir(), "--auth-token-file", write(t, " s3cret\n"))
	to := "NORN_ADDR=" + s.addr
	for _, env := range [][]string{{to}, {to, "NORN_AUTH_TOKEN=wrong"}} {
		if r := nornWith(t, "", env, "task", "count", "--timeout", "3s"); r.code != 1 || !strings.Contains(r.err, "--auth-token") {
			t.Errorf("with %v: %+v", env[1:], r)
		}
	}
	if r := nornWith(t, "", []string{to, "NORN_AUTH_TOKEN=s3cret"}, "task", "count", "-o", "jsonl"); r.code != 0 {
		t.Errorf("with the token: %+v", r)
	}
	refused(t, 64, "everybody would get in", "server", "--data", t.TempDir(), "--auth-token-file", write(t, "\n"))
	refused(t, 64, "auth-token-file: ", "server", "--data", t.TempDir(), "--auth-token-file", "does/not/exist")
	refused(t, 64, "peer-secret-file: ", "server", "--data", t.TempDir(), "--peer-secret-file", "does/not/exist")
}

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	return certificateUntil(t, time.Now().Add(time.Hour))
}

// certificateUntil makes one that is good until some time, for loopback and some names.
func certificateUntil(t *testing.T, end time.Time, names ...string) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: end, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func TestTLS(t *testing.T) {
	beside(t)
	cert, key := certificate(t)
	past, pastKey := certificateUntil(t, time.Now().Add(-time.Minute))
	believed := ""
	for _, file := range []string{cert, past} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		believed += string(b)
	}
	s := ownServer(t, t.TempDir(), "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", write(t, believed))
	env := []string{"NORN_ADDR=" + s.addr, "NORN_TLS_CA=" + cert}
	if r := nornWith(t, "", env, "task", "count", "-o", "jsonl", "--tls-cert", cert, "--tls-key", key); r.code != 0 {
		t.Errorf("with a certificate: %+v", r)
	}
	// What no repetition changes is said at once, with what to change.
	other, _ := certificate(t)
	for name, tc := range map[string]struct {
		advice string
		args   []string
	}{
		"no certificate": {"with --tls-cert and --tls-key", []string{"--addr", s.addr, "--tls-ca", cert}},
		"an expired one": {"this end has shown " + past, []string{"--addr", s.addr, "--tls-ca", cert, "--tls-cert", past, "--tls-key", pastKey}},
		"no TLS":         {"speak TLS with --tls-ca", []string{"--addr", s.addr}},
		"another CA":     {"of the server's certificate with --tls-ca", []string{"--addr", s.addr, "--tls-ca", other}},
		"another name":   {"its name with --tls-server-name", []string{"--addr", s.addr, "--tls-ca", cert, "--tls-server-name", "elsewhere"}},
		"plain":          {"leave out --tls-ca", []string{"--addr", the.server.addr, "--tls-ca", cert}},
		"plain HTTP":     {"name the client port", []string{"--addr", the.server.http}},
		"HTTP and TLS":   {"name the client port", []string{"--addr", s.http}},
	} {
		if r := norn(t, append([]string{"task", "count", "--timeout", "10m"}, tc.args...)...); r.code != 4 || !strings.Contains(r.err, tc.advice) || strings.Contains(r.err, "norn server") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	refused(t, 2, "one is useless without the other", "task", "count", "--tls-cert", cert)
}
