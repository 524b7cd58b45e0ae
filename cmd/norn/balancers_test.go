package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
)

// balancer is a program of docs/how-to/balancers.md.
type balancer struct {
	name string
	args func(dir, config string) []string
	// bind is the line that says where it listens, to be put to a port of the test.
	bind, bound string
	// around makes a whole configuration run beside others: %s is a directory.
	around func(config, dir string) string
	checks bool // it asks for /readyz
}

var balancers = []*balancer{
	{
		name: "nginx", bind: "listen 443 ssl;", bound: "listen 127.0.0.1:%d ssl;",
		args: func(dir, config string) []string {
			return []string{"-c", config, "-e", "stderr", "-p", dir, "-g", "daemon off; master_process off; error_log stderr; pid " + dir + "/pid;"}
		},
		around: func(config, dir string) string {
			own := "http {\n access_log off;"
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				own += fmt.Sprintf("\n %s_temp_path %s/%s;", kind, dir, kind)
			}
			return strings.Replace(config, "http {", own, 1)
		},
	},
	{
		name: "haproxy", bind: "bind :443 ", bound: "bind 127.0.0.1:%d ", checks: true,
		args:   func(_, config string) []string { return []string{"-db", "-f", config} },
		around: func(config, _ string) string { return config },
	},
	{
		name: "caddy", bind: "norn.example.com {", bound: "norn.example.com:%d {", checks: true,
		args: func(_, config string) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", config}
		},
		around: func(config, _ string) string {
			return "{\n admin off\n auto_https disable_redirects\n default_bind 127.0.0.1\n}\n" + config
		},
	},
}

// balancersPage is docs/how-to/balancers.md.
func balancersPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/how-to/balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is what stands in the page in a block of some language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(found) != 1 {
		t.Fatalf("the page has %d blocks of %s", len(found), language)
	}
	return found[0][1]
}

// swap puts a part of a configuration in the place of another, which must be there.
func swap(t *testing.T, config, old, by string) string {
	t.Helper()
	if !strings.Contains(config, old) {
		t.Fatalf("there is no %q in\n%s", old, config)
	}
	return strings.ReplaceAll(config, old, by)
}

// between are a node and a balancer in front of it, started as the page says.
type between struct {
	t        *testing.T
	b        *balancer
	node     *server
	web, tcp string // its ports
	client   *http.Client
	unready  *unready
}

// base is what browsers see.
const base = "https://norn.example.com/norn"

// unready is a node that is open and not ready.
type unready struct {
	*httptest.Server
	asked, misled atomic.Int64
}

func newUnready(t *testing.T) *unready {
	u := &unready{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			u.misled.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	u.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			u.asked.Add(1)
		}
	}
	u.Start()
	t.Cleanup(u.Close)
	return u
}

// freePort is one that nobody listens to.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// before starts a balancer in front of a node, with a configuration in which the ports, the
// addresses and the files of the page are those of the test.
func before(t *testing.T, b *balancer, node *server, config string, cert, key string) *between {
	t.Helper()
	return beforeOf(t, http.StatusOK, b, node, config, cert, key)
}

// beforeOf waits until /readyz is answered with a status.
func beforeOf(t *testing.T, status int, b *balancer, node *server, config string, cert, key string) *between {
	t.Helper()
	program, err := exec.LookPath(b.name)
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/" + b.name); err != nil {
			t.Skipf("%s is not installed", b.name)
		}
	}
	x := &between{t: t, b: b, node: node, unready: newUnready(t)}
	dir, web, tcp := t.TempDir(), freePort(t), freePort(t)
	x.web, x.tcp = fmt.Sprintf("127.0.0.1:%d", web), fmt.Sprintf("127.0.0.1:%d", tcp)
	chain, secret := read(t, cert), read(t, key)
	dead, open := fmt.Sprintf("127.0.0.1:%d", freePort(t)), x.unready.Listener.Addr().String()
	if !b.checks {
		open = dead
	}
	config = swap(t, config, b.bind, fmt.Sprintf(b.bound, web))
	port := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
	config = strings.NewReplacer(
		"10.0.0.1:7713", node.http, "10.0.0.2:7713", open, "10.0.0.3:7713", dead, "bind :7711", "bind "+x.tcp,
		"10.0.0.1:7711 check port 7713", node.addr+" check port "+port(node.http),
		"10.0.0.2:7711 check port 7713", open+" check port "+port(open),
		"10.0.0.3:7711 check port 7713", dead+" check port "+port(dead),
		"/etc/ssl/norn.crt", cert, "/etc/ssl/norn.key", key, "/etc/ssl/norn.pem", write(t, chain+secret), "/etc/ssl/nodes.crt", cert,
		"/etc/norn/passwords", write(t, "ann:{PLAIN}secret\n"),
	).Replace(config)
	file := write(t, b.around(config, dir))
	cmd, out := exec.Command(program, b.args(dir, file)...), &buffer{}
	cmd.Env, cmd.Dir = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir), dir
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s with\n%s\nsays\n%s", b.name, config, out.String())
		}
	})
	x.client = x.from("127.0.0.1", chain)
	eventually(t, b.name+" serves", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended", b.name)
		default:
		}
		for range 6 { // two to each of three nodes: it knows who is not ready
			r, err := x.client.Get(base + "/readyz")
			if err != nil {
				return false
			}
			_ = r.Body.Close()
			if r.StatusCode != status {
				return false
			}
		}
		return !b.checks || x.unready.asked.Load() > 0
	})
	return x
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// from is a client at an address, which finds every name at the balancer.
func (x *between) from(address, authorities string) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authorities))
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, x.web)
		},
	}
	x.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > 2 {
			return fmt.Errorf("redirects without end")
		}
		return nil
	}}
}

// ask asks through the balancer.
func (x *between) ask(verb, path, body string, headers ...string) asked {
	x.t.Helper()
	return askWith(x.t, x.client, verb, base+path, body, headers...)
}

// good asks for what must succeed.
func (x *between) good(verb, path, body string, headers ...string) asked {
	x.t.Helper()
	a := x.ask(verb, path, body, headers...)
	if a.code != http.StatusOK {
		x.t.Fatalf("%s: %s %s: %d %.500s", x.b.name, verb, path, a.code, a.raw)
	}
	return a
}

// waits is how many requests wait at the node.
func (x *between) waits() string {
	x.t.Helper()
	return regexp.MustCompile(`(?m)^norn_http_waits (\d+)`).FindStringSubmatch(askOf(x.t, x.node.http, "GET", "/metrics", "").raw)[1]
}

// TestBalancers runs what docs/how-to/balancers.md says.
func TestBalancers(t *testing.T) {
	beside(t)
	page := balancersPage(t)
	cert, key := certificateUntil(t, time.Now().Add(time.Hour), "norn.example.com")
	node := ownServer(t, t.TempDir(), "--http-hosts", "norn.example.com", "--proxy-from", "127.0.0.1")
	for _, b := range balancers {
		t.Run(b.name, func(t *testing.T) {
			x := before(t, b, node, block(t, page, b.name), cert, key)
			x.work()
			x.events()
			x.hangUp()
			x.dashboard()
			x.bodies()
			if b.checks && x.unready.misled.Load() > 0 {
				t.Errorf("%d requests went to a node that is not ready", x.unready.misled.Load())
			}
		})
	}
}

// work is a task, and a queue whose name has a slash.
func (x *between) work() {
	queue := x.b.name + "/work"
	x.good("POST", "/api/v1/tasks", fmt.Sprintf(`{"tasks": [{"queue": %q, "payload_text": "first"}]}`, queue))
	if got := x.claim(queue, 0); got.text("grants", 0, "task", "payload_text") != "first" {
		x.t.Errorf("it claims %s", got.raw)
	}
	if got := x.good("GET", "/api/v1/queues/"+strings.ReplaceAll(queue, "/", "%2F"), ""); got.text("queues", 0, "name") != queue {
		x.t.Errorf("the queue is %s", got.raw)
	}
	waited := make(chan asked, 1)
	go func() { waited <- x.claim(queue, 300) }()
	eventually(x.t, "the claim waits", func() bool { return x.waits() == "1" })
	x.good("POST", "/api/v1/tasks", fmt.Sprintf(`{"tasks": [{"queue": %q, "payload_text": "second"}]}`, queue))
	if got := <-waited; got.text("grants", 0, "task", "payload_text") != "second" {
		x.t.Errorf("it waits for %s", got.raw)
	}
}

func (x *between) claim(queue string, wait int) asked {
	return x.ask("POST", "/api/v1/tasks/claim", fmt.Sprintf(`{"queues": [%q], "max_tasks": 1, "lease_seconds": 60, "wait_seconds": %d}`, queue, wait))
}

// events come while the log of a task is still open.
func (x *between) events() {
	id := x.good("POST", "/api/v1/tasks", `{"tasks": [{"queue": "events", "payload_text": "x"}]}`).text("results", 0, "receipt", "id")
	token := x.claim("events", 0).text("grants", 0, "token")
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	answer, err := x.client.Do(request(ctx, x.t, "GET", base+"/api/v1/tasks/"+id+"/log", "", "Accept", "text/event-stream"))
	if err != nil {
		x.t.Fatalf("%s: the log: %v", x.b.name, err)
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	until := func(text string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		x.t.Errorf("%s: no %q comes: %v", x.b.name, text, lines.Err())
	}
	for i, text := range []string{"one", "two"} {
		x.good("POST", "/api/v1/tasks/update", fmt.Sprintf(`{"id": %q, "token": %q, "seq": %d, "data_text": %q}`, id, token, i, text))
		until(text)
	}
	x.good("POST", "/api/v1/tasks/complete", fmt.Sprintf(`{"completions": [{"id": %q, "token": %q, "seq": 2}]}`, id, token))
	until("completed")
}

// hangUp is a client that goes while its claim waits: the next task is not for it.
func (x *between) hangUp() {
	ctx, cancel := context.WithCancel(x.t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		answer, err := x.client.Do(request(ctx, x.t, "POST", base+"/api/v1/tasks/claim", `{"queues": ["gone"], "max_tasks": 1, "lease_seconds": 60, "wait_seconds": 300}`))
		if err == nil {
			_ = answer.Body.Close()
		}
	}()
	eventually(x.t, "the claim waits", func() bool { return x.waits() == "1" })
	cancel()
	<-gone
	eventually(x.t, "the claim of who has gone is over at the node", func() bool { return x.waits() == "0" })
}

// dashboard is under its path, with all it loads.
func (x *between) dashboard() {
	for _, path := range []string{"", "/"} {
		front := x.good("GET", path, "")
		names := regexp.MustCompile(`(?:src|href)="([^"#:]+)"`).FindAllStringSubmatch(front.raw, -1)
		if len(names) < 3 {
			x.t.Errorf("%s: the dashboard is %.300s", x.b.name, front.raw)
		}
		for _, name := range names {
			if kind := x.good("GET", "/"+name[1], "").header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") || kind == "" {
				x.t.Errorf("%s: %s is %s", x.b.name, name[1], kind)
			}
		}
	}
	queue := `{"settings": {"paused": false}, "fields": ["paused"]}` // a button of the page
	x.good("PATCH", "/api/v1/queues/events", queue, "Origin", "https://norn.example.com", "Sec-Fetch-Site", "same-origin")
}

// bodies of a batch as large as may be pass.
func (x *between) bodies() {
	payload := base64.StdEncoding.EncodeToString(make([]byte, 1_000_000))
	tasks := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"queue": "large", "payload": %q},`, payload), 16), ",")
	x.good("POST", "/api/v1/tasks", `{"tasks": [`+tasks+`]}`)
}

// TestBalancersWithout has each line that the page asks for left out, or another in its place.
func TestBalancersWithout(t *testing.T) {
	beside(t)
	page := balancersPage(t)
	cert, key := certificateUntil(t, time.Now().Add(time.Hour), "norn.example.com")
	node := ownServer(t, t.TempDir(), "--http-hosts", "norn.example.com", "--proxy-from", "127.0.0.1")
	secure := ownServer(t, t.TempDir(), "--proxy-from", "127.0.0.1", "--tls-cert", cert, "--tls-key", key)
	host := map[string][2]string{
		"nginx":   {"proxy_set_header Host $http_host;", ""},
		"haproxy": {"backend nodes\n", "backend nodes\n  http-request set-header Host nodes\n"},
		"caddy":   {"health_uri /readyz", "health_uri /readyz\n header_up Host nodes"},
	}
	impatient := map[string][2]string{"nginx": {"proxy_read_timeout 310s", "proxy_read_timeout 1s"}, "haproxy": {"timeout server 310s", "timeout server 1s"}}
	for _, b := range balancers {
		config := block(t, page, b.name)
		t.Run(b.name+", another Host", func(t *testing.T) {
			x := before(t, b, node, swap(t, config, host[b.name][0], host[b.name][1]), cert, key)
			wrong := map[string]string{"nginx": `\"norn\"`, "haproxy": `\"nodes\"`, "caddy": `\"nodes\"`}[b.name]
			if a := x.ask("GET", "/api/v1/ping", ""); a.code != http.StatusForbidden || !strings.Contains(a.raw, wrong+" (Host) is no name of this node") || !strings.Contains(a.raw, "http-hosts") {
				t.Errorf("%d %s", a.code, a.raw)
			}
		})
		t.Run(b.name+", short time", func(t *testing.T) {
			if impatient[b.name][0] == "" {
				t.Skip("it has no limit by itself")
			}
			x := before(t, b, node, swap(t, config, impatient[b.name][0], impatient[b.name][1]), cert, key)
			if a := x.claim("nothing", 20); a.code != http.StatusGatewayTimeout {
				t.Errorf("%d %s", a.code, a.raw)
			}
		})
		t.Run(b.name+", a node with a certificate", func(t *testing.T) {
			x := before(t, b, secure, config, cert, key)
			if a := x.ask("GET", "/api/v1/ping", ""); a.code != http.StatusForbidden || !strings.Contains(a.raw, "so must a proxy in front of it") {
				t.Errorf("%d %s", a.code, a.raw)
			}
			if a := x.ask("GET", "/", ""); a.code != http.StatusForbidden || !strings.Contains(a.raw, "proxy") { // and no redirect
				t.Errorf("%d %s", a.code, a.raw)
			}
		})
		t.Run(b.name+", TLS to the node", func(t *testing.T) {
			x := before(t, b, secure, b.secured(t, page, config), cert, key)
			x.good("GET", "/api/v1/ping", "")
		})
	}
	t.Run("haproxy, a claim of nobody", func(t *testing.T) {
		x := before(t, balancers[1], node, swap(t, block(t, page, "haproxy"), "  option abortonclose\n", ""), cert, key)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if answer, err := x.client.Do(request(ctx, t, "POST", base+"/api/v1/tasks/claim", `{"queues": ["gone"], "max_tasks": 1, "lease_seconds": 60, "wait_seconds": 5}`)); err == nil {
			_ = answer.Body.Close()
			t.Fatal("the claim was answered")
		}
		x.good("POST", "/api/v1/tasks", `{"tasks": [{"queue": "gone", "payload_text": "x"}]}`)
		if a := x.claim("gone", 0); a.at("grants", 0) != nil {
			t.Errorf("without abortonclose the claim of nobody is over, too: %s", a.raw)
		}
	})
}

// secured is the configuration with what the page's table has for nodes with a certificate.
func (b *balancer) secured(t *testing.T, page, config string) string {
	t.Helper()
	row := regexp.MustCompile("(?mi)^\\| " + b.name + " \\| `([^`]+)` \\| (.*) \\|$").FindStringSubmatch(page)
	if row == nil {
		t.Fatalf("the page has no row for %s and TLS", b.name)
	}
	var by []string
	for _, part := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
		by = append(by, part[1])
	}
	return swap(t, config, row[1], strings.Join(by, "\n"))
}

// TestBalancersWithAPassword: the proxy has Authorization, the token of the node a header of
// its own.
func TestBalancersWithAPassword(t *testing.T) {
	beside(t)
	page := balancersPage(t)
	cert, key := certificateUntil(t, time.Now().Add(time.Hour), "norn.example.com")
	node := ownServer(t, t.TempDir(), "--auth-token-file", write(t, "of-the-nodes\n"), "--proxy-from", "127.0.0.1")
	asks := map[string]func(t *testing.T, config string) string{
		"nginx": func(t *testing.T, config string) string {
			return swap(t, config, "location /norn/ {", "location /norn/ {\n"+block(t, page, "nginx-password"))
		},
		"haproxy": func(t *testing.T, config string) string {
			return block(t, page, "haproxy-users") + swap(t, config, "backend nodes\n", "backend nodes\n"+block(t, page, "haproxy-password"))
		},
		"caddy": func(t *testing.T, config string) string {
			hash, err := exec.CommandContext(t.Context(), "caddy", "hash-password", "--plaintext", "secret").Output()
			if err != nil {
				t.Skipf("caddy hash-password: %v", err)
			}
			return swap(t, config, "handle_path /norn/* {", "handle_path /norn/* {\n"+swap(t, block(t, page, "caddy-password"), "HASH", strings.TrimSpace(string(hash))))
		},
	}
	for _, b := range balancers {
		t.Run(b.name, func(t *testing.T) {
			x := beforeOf(t, http.StatusUnauthorized, b, node, asks[b.name](t, block(t, page, b.name)), cert, key)
			password := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:secret"))
			eventually(t, "the proxy knows which of three nodes is ready", func() bool { // it asks for the password before that
				for range 6 {
					if x.ask("GET", "/api/v1/ping", "", "Authorization", password, "X-Norn-Token", "of-the-nodes").code != http.StatusOK {
						return false
					}
				}
				return true
			})
			for _, try := range []struct {
				code    int
				headers []string
			}{
				{http.StatusUnauthorized, nil},
				{http.StatusUnauthorized, []string{"X-Norn-Token", "of-the-nodes"}},
				{http.StatusUnauthorized, []string{"Authorization", password}},
				{http.StatusOK, []string{"Authorization", password, "X-Norn-Token", "of-the-nodes"}},
			} {
				if a := x.ask("GET", "/api/v1/ping", "", try.headers...); a.code != try.code {
					t.Errorf("%v: %d %s", try.headers, a.code, a.raw)
				}
			}
		})
	}
}

// TestBalancersOfTheWire: workers and clients behind HAProxy, with the address of the client
// in the log of the node, in both versions of the header and on both ports.
func TestBalancersOfTheWire(t *testing.T) {
	beside(t)
	cert, key := certificateUntil(t, time.Now().Add(time.Hour), "norn.example.com")
	config := block(t, balancersPage(t), "haproxy")
	for _, version := range []string{"send-proxy-v2", "send-proxy"} {
		t.Run(version, func(t *testing.T) {
			node := ownServer(t, t.TempDir(), "--auth-token-file", write(t, "of-the-nodes\n"), "--proxy-from", "127.0.0.1")
			short := swap(t, config, "timeout client 1m", "timeout client 4s") // what is silent is cut
			short = swap(t, swap(t, short, "timeout server 1m", "timeout server 4s"), "send-proxy-v2", version)
			x := before(t, balancers[1], node, short, cert, key)
			to := []string{"NORN_ADDR=" + x.tcp, "NORN_AUTH_TOKEN=of-the-nodes"}
			if r := nornWith(t, "", append(to, "HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "ALL_PROXY=http://127.0.0.1:1"), "task", "enqueue", "-q", "wire", "x"); r.code != 0 {
				t.Fatalf("%+v", r)
			}
			if r := nornWith(t, "", to, "work", "-q", "wire", "--exit-when-empty", "--", "true"); r.code != 0 {
				t.Fatalf("%+v", r)
			}
			w := startWith(t, "wire", []string{"--addr", x.tcp, "--auth-token", "of-the-nodes", "--name", "wire"}, "true") // with a session
			eventually(t, "it is connected", func() bool { return strings.Contains(w.out.String(), "waiting for tasks") })
			x.idle()
			r := nornWith(t, "", to, "task", "enqueue", "-q", "wire", "y")
			if r := nornWith(t, "", to, "task", "wait", strings.TrimSpace(r.out), "--timeout", "60s"); r.code != 0 {
				t.Fatalf("%+v", r)
			}
			x.strangers(read(t, cert))
		})
	}
	t.Run("not named", func(t *testing.T) {
		node := ownServer(t, t.TempDir())
		x := beforeOf(t, http.StatusServiceUnavailable, balancers[1], node, config, cert, key) // no check succeeds
		eventually(t, "the log says why", func() bool {
			return regexp.MustCompile(`"http\.refused".*proxy-from`).MatchString(node.log.String())
		})
		if r := nornWith(t, "", []string{"NORN_ADDR=" + x.tcp}, "task", "count", "--timeout", "5s"); r.code == 0 || !strings.Contains(r.err, "proxy-from") {
			t.Errorf("%+v", r)
		}
	})
}

// idle is a client that waits for longer than the balancer lets a silent connection live: its
// connection stays.
func (x *between) idle() {
	var dialled atomic.Int64
	c, err := client.Dial(x.t.Context(), []string{x.tcp}, client.WithAuthToken("of-the-nodes"), client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}))
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Claim(x.t.Context(), client.ClaimRequest{Queues: []string{"never"}, Wait: 6 * time.Second}); err != nil {
		x.t.Error(err)
	}
	if n := dialled.Load(); n > 2 { // two connections may be made at once
		x.t.Errorf("%d connections were made", n)
	}
}

// strangers are seen where they come from.
func (x *between) strangers(authorities string) {
	const web, wire = "127.0.0.2", "127.0.0.3"
	if a := askWith(x.t, x.from(web, authorities), "GET", base+"/api/v1/ping", "", "X-Norn-Token", "wrong"); a.code != http.StatusUnauthorized {
		x.t.Errorf("%d %s", a.code, a.raw)
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(wire)}}
	c, err := client.Dial(x.t.Context(), []string{x.tcp}, client.WithAuthToken("wrong"), client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", addr)
	}))
	if err != nil {
		x.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Connect(x.t.Context()); !errors.Is(err, client.ErrUnauthenticated) {
		x.t.Errorf("a wrong token: %v", err)
	}
	eventually(x.t, "the log has them", func() bool {
		said := strings.Split(x.node.log.String(), "\n")
		has := func(address string) bool {
			return slices.ContainsFunc(said, func(line string) bool {
				return strings.Contains(line, `"auth.failed"`) && strings.Contains(line, `"remote":"`+address+`:`)
			})
		}
		return has(web) && has(wire)
	})
}
