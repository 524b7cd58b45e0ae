package health

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestHealthcheck: the page and the address that are asked, and the answers that are a no.
func TestHealthcheck(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		if r.URL.Path == "/readyz" {
			http.Error(w, "not yet: node a waits for b", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}))
	addr := strings.TrimPrefix(s.URL, "http://")
	_, port, _ := strings.Cut(addr, ":")
	run := func(environ []string, args ...string) (string, error) {
		var out bytes.Buffer
		limit := 10 * time.Second
		cmd := Command(Host{Out: &out, Environ: environ, Timeout: &limit})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		err := cmd.Execute()
		return out.String(), err
	}
	for _, c := range []struct {
		environ []string
		args    []string
	}{
		{nil, []string{addr}}, {nil, []string{port}}, {nil, []string{":" + port}}, {nil, []string{"0.0.0.0:" + port}},
		{[]string{"NORN_SERVER_HTTP_LISTEN=0.0.0.0:" + port}, []string{}},
	} {
		asked = ""
		if out, err := run(c.environ, c.args...); err != nil || out != "ok\n" || asked != "/livez" {
			t.Errorf("%v %v: %q, %v, asked %q", c.environ, c.args, out, err, asked)
		}
	}
	if _, err := run(nil, "--ready", addr); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "waits for b") {
		t.Errorf("not ready: %v", err)
	}
	s.Close()
	if _, err := run(nil, addr); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("nobody there: %v", err)
	}
	if got := address([]string{"[::]:1"}, nil); got != "[::1]:1" {
		t.Errorf("[::]:1 is asked at %s", got)
	}
}
