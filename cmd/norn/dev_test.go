package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// dev is a running `norn dev`.
type dev struct {
	cmd  *exec.Cmd
	out  chan string // lines of standard output; closed at the end
	err  *buffer
	done chan struct{} // closed when it has ended
	rows [][]string    // of the table: node, clients, nodes, http, pid, log
}

// nextPorts is where basePort looks next, in steps of devPorts: two tests that run
// beside each other get different ones.
var (
	firstPorts = rand.Int64N(1000)
	nextPorts  atomic.Int64
)

// basePort finds a first port such that the ports of so many nodes are free.
func basePort(t *testing.T, nodes int) int {
	t.Helper()
	for range 100 {
		base := 20000 + devPorts*int((firstPorts+nextPorts.Add(int64(nodes))-int64(nodes))%1000)
		var plan []devNode
		for i := range nodes {
			p := base + devPorts*i
			plan = append(plan, devNode{listen: loopback(p), peer: loopback(p + 1), http: loopback(p + 2)})
		}
		if checkPorts(plan) == nil {
			return base
		}
	}
	t.Fatal("no ports are free")
	return 0
}

// startDev starts `norn dev` for a test.
func startDev(t *testing.T, args ...string) *dev {
	t.Helper()
	d := &dev{cmd: exec.Command(the.norn, append([]string{"dev", "--eta", "100ms"}, args...)...), out: make(chan string, 1000), err: &buffer{}, done: make(chan struct{})}
	d.cmd.Env = environment("TMPDIR=" + t.TempDir())
	d.cmd.Stderr = d.err
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			d.out <- lines.Text()
		}
		close(d.out)
		_ = d.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // it may have ended
		<-d.done
	})
	return d
}

// ready waits for the word, and reads the table before it.
func (d *dev) ready(t *testing.T) *dev {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-d.out:
			switch {
			case !ok:
				t.Fatalf("it ended: %s", d.err.String())
			case line == "ready":
				return d
			case strings.HasPrefix(line, "n"):
				d.rows = append(d.rows, strings.Fields(line))
			}
		case <-limit:
			t.Fatalf("not ready: %s", d.err.String())
		}
	}
}

// end sends a signal and wants an exit code.
func (d *dev) end(t *testing.T, sig os.Signal, code int) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	d.ended(t, code)
}

func (d *dev) ended(t *testing.T, code int) {
	t.Helper()
	select {
	case <-d.done:
		if got := d.cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("exit %d, want %d: %s", got, code, d.err.String())
		}
	case <-time.After(patience):
		t.Fatalf("it does not end: %s", d.err.String())
	}
}

// silent waits until nobody listens at an address.
func silent(t *testing.T, address string) {
	t.Helper()
	eventually(t, "nobody listens at "+address, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}

func to(address string) []string { return []string{"NORN_ADDR=" + address, "NORN_TIMEOUT=30s"} }

// TestDev starts three nodes, kills one, starts it again as the message says,
// and comes back to the same data.
// looksAt fails unless the dashboard is at an address.
func looksAt(t *testing.T, address string) {
	t.Helper()
	page, err := http.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	if _ = page.Body.Close(); page.StatusCode != 200 || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the dashboard: %d, %v", page.StatusCode, page.Header)
	}
}

func TestDev(t *testing.T) {
	beside(t)
	dir := filepath.Join(t.TempDir(), "made by dev")
	base := basePort(t, 3)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, dir)
	if err != nil {
		t.Fatal(err)
	}
	d := startDev(t, "--nodes", "3", "--data", relative, "--base-port", fmt.Sprint(base)).ready(t)
	if len(d.rows) != 3 {
		t.Fatalf("the table is %v", d.rows)
	}
	var ids []string
	for i, row := range d.rows {
		want := []string{fmt.Sprintf("n%d", i+1), loopback(base + 10*i), loopback(base + 10*i + 1), loopback(base + 10*i + 2)}
		if !slices.Equal(row[:4], want) {
			t.Errorf("row %d is %v, want %v and more", i, row, want)
		}
		r := nornWith(t, "", to(want[1]), "task", "enqueue", "-q", "q", "x")
		if ids = append(ids, strings.TrimSpace(r.out)); r.code != 0 {
			t.Errorf("%s: %+v", want[0], r)
		}
		if b, err := os.ReadFile(filepath.Join(dir, want[0], "log")); err != nil || !bytes.Contains(b, []byte("server.ready")) {
			t.Errorf("the log of %s: %s, %v", want[0], b, err)
		}
	}
	looksAt(t, loopback(base+2))
	if strings.Contains(d.err.String(), "server.ready") {
		t.Errorf("logs are shown: %s", d.err.String())
	}

	kill(t, d.rows[1][4], syscall.SIGKILL)
	eventually(t, "it tells that n2 is dead", func() bool {
		return regexp.MustCompile(`norn: n2 \(pid ` + d.rows[1][4] + `\) ended: signal: killed; the others go on. It starts again with: .*server.*\n`).MatchString(d.err.String())
	})
	if r := nornWith(t, "", to(d.rows[0][1]), "cluster", "status"); r.code != 0 {
		t.Errorf("n1 without n2: %+v", r)
	}
	_, line, _ := strings.Cut(d.err.String(), "It starts again with: ")
	line, _, _ = strings.Cut(line, "\n")
	again := exec.Command("sh", "-c", "exec "+line)
	again.Env, again.Dir = environment(), t.TempDir() // wherever it is pasted, it goes on with the same data
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "n2 answers again", func() bool { return nornWith(t, "", to(d.rows[1][1]), "cluster", "status").code == 0 })
	_ = again.Process.Signal(syscall.SIGTERM)
	if err := again.Wait(); err != nil {
		t.Errorf("n2, started by hand: %v", err)
	}
	d.end(t, syscall.SIGTERM, 0)
	for _, row := range d.rows {
		silent(t, row[1])
	}

	d = startDev(t, "--nodes", "3", "--data", dir, "--base-port", fmt.Sprint(base)).ready(t)
	for i, id := range ids {
		if r := nornWith(t, "", to(d.rows[i][1]), "task", "get", id); r.code != 0 {
			t.Errorf("the task that %s took is gone: %+v", d.rows[i][0], r)
		}
	}
	d.end(t, syscall.SIGINT, 0)
	if left := leftOut(dir, 1); !slices.Equal(left, []string{"n2", "n3"}) || leftOut(dir, 3) != nil {
		t.Errorf("one node leaves out %v", left)
	}
}

// kill sends a signal to a process of the table.
func kill(t *testing.T, pid string, sig syscall.Signal) {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil || n < 2 {
		t.Fatalf("pid %q: %v", pid, err)
	}
	if err := syscall.Kill(n, sig); err != nil {
		t.Fatal(err)
	}
}

// TestDevIsTemporary wants nothing left behind, and the table as JSON.
func TestDevIsTemporary(t *testing.T) {
	beside(t)
	d := startDev(t, "-o", "json", "--nodes", "2", "--base-port", fmt.Sprint(basePort(t, 2)), "--verbose", "--partitions", "16")
	var document strings.Builder
	for line := range d.out {
		document.WriteString(line + "\n")
		if line == "]" {
			break
		}
	}
	var nodes []struct {
		Name, Address, Data string
		PID                 json.Number
	}
	if err := json.Unmarshal([]byte(document.String()), &nodes); err != nil || len(nodes) != 2 || nodes[1].Name != "n2" {
		t.Fatalf("%v, %+v: %s %s", err, nodes, document.String(), d.err.String())
	}
	if r := nornWith(t, "", append(to(nodes[1].Address), "NORN_OUTPUT=json"), "cluster", "status"); strings.Count(r.out, `"oldest_ready_seconds"`) != 16 {
		t.Errorf("--partitions did not arrive: %s %s", r.out, r.err)
	}
	for _, want := range []string{"n1 | ", "n2 | ", "server.ready"} {
		if !strings.Contains(d.err.String(), want) {
			t.Errorf("--verbose does not show %q: %s", want, d.err.String())
		}
	}
	if b, err := os.ReadFile(filepath.Join(nodes[0].Data, "log")); err != nil || !bytes.Contains(b, []byte("server.ready")) {
		t.Errorf("the log: %s, %v", b, err)
	}
	d.end(t, syscall.SIGINT, 0)
	if _, err := os.Stat(filepath.Dir(nodes[0].Data)); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", nodes[0].Data, err)
	}
}

// TestDevIsKilled wants that its nodes die with it.
func TestDevIsKilled(t *testing.T) {
	beside(t)
	d := startDev(t, "--nodes", "2", "--base-port", fmt.Sprint(basePort(t, 2))).ready(t)
	d.end(t, syscall.SIGKILL, -1)
	for _, row := range d.rows {
		silent(t, row[1])
	}
}

// TestDevSecondSignal stops a cluster of which one node does not listen.
func TestDevSecondSignal(t *testing.T) {
	beside(t)
	d := startDev(t, "--nodes", "2", "--base-port", fmt.Sprint(basePort(t, 2))).ready(t)
	kill(t, d.rows[0][4], syscall.SIGSTOP)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	silent(t, d.rows[1][1])
	late := func() bool { return strings.Contains(d.err.String(), "not stopped after") } // its patience was over before ours
	select {
	case <-d.done:
		if !late() {
			t.Fatalf("it did not wait: %s", d.err.String())
		}
		return
	default:
	}
	began := time.Now()
	d.end(t, syscall.SIGTERM, 0)
	if took := time.Since(began); took > devGrace/2 && late() {
		t.Errorf("the second signal took %s", took)
	}
}

func TestDevPortInUse(t *testing.T) {
	base := basePort(t, 2)
	p, err := net.ListenPacket("udp", loopback(base+11))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	dir := filepath.Join(t.TempDir(), "dir")
	r := norn(t, "dev", "--nodes", "2", "--base-port", fmt.Sprint(base), "--data", dir)
	if r.code != 1 || r.out != "" || !strings.Contains(r.err, "norn: n2: port for other nodes, UDP: ") || !strings.Contains(r.err, "choose other ports with --base-port") {
		t.Errorf("got %+v", r)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
}

// TestDevNodeFails starts a node on a damaged directory.
func TestDevNodeFails(t *testing.T) {
	beside(t)
	dir, base := t.TempDir(), basePort(t, 2)
	if err := os.Mkdir(filepath.Join(dir, "n2"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "n2", "IDENTITY"), []byte("nonsense"), 0o640); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, "--nodes", "2", "--base-port", fmt.Sprint(base), "--data", dir)
	d.ended(t, 1)
	for _, want := range []string{"norn: n2 (pid ", "ended: exit status 70 before the cluster was ready", "IDENTITY is damaged"} {
		if !strings.Contains(d.err.String(), want) {
			t.Errorf("it does not say %q: %s", want, d.err.String())
		}
	}
	silent(t, loopback(base))
	for line := range d.out {
		if line == "ready" {
			t.Error("it said that it was ready")
		}
	}
}

// TestDevNoNodeLeft kills the only one.
func TestDevNoNodeLeft(t *testing.T) {
	d := startDev(t, "--nodes", "1", "--base-port", fmt.Sprint(basePort(t, 1))).ready(t)
	kill(t, d.rows[0][4], syscall.SIGKILL)
	d.ended(t, 1)
	if !strings.Contains(d.err.String(), "norn: no node is left") {
		t.Errorf("it says %s", d.err.String())
	}
}

func TestDevWithCredentials(t *testing.T) {
	cert, key := certificate(t)
	d := startDev(t, "--nodes", "1", "--base-port", fmt.Sprint(basePort(t, 1)),
		"--auth-token-file", write(t, "s3cret\n"), "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert).ready(t)
	d.end(t, syscall.SIGTERM, 0)
}

func TestDevUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"--nodes: 0 is not":                      {"--nodes", "0"},
		"--base-port: 65530 is not":              {"--base-port", "65530"},
		"unknown flag: --listen":                 {"--listen", "127.0.0.1:1"},
		"unknown flag: --etta":                   {"--etta", "1s"},
		`"1" has no unit; write 1s for seconds`:  {"--eta", "1"},
		"weight: 0 is not between 1 and 1000000": {"--weight", "0"},
		"no such file":                           {"--config", "does/not/exist"},
	} {
		refused(t, 2, want, append([]string{"dev"}, args...)...)
	}
	if out := ok(t, "dev", "--help"); !strings.Contains(out, "--base-port port") || !strings.Contains(out, "--eta") || strings.Contains(out, "--peer-listen") {
		t.Errorf("--help: %s", out)
	}
	if r := norn(t, "__complete", "dev", "--base"); !strings.HasPrefix(r.out, "--base-port") {
		t.Errorf("completion: %+v", r)
	}
}

func TestDevJoins(t *testing.T) {
	dir := t.TempDir()
	plan := func() []string {
		nodes := []devNode{{name: "n1", peer: "1"}, {name: "n2", peer: "2"}, {name: "n3", peer: "3"}}
		var out []string
		for i := range nodes {
			nodes[i].data = filepath.Join(dir, nodes[i].name)
		}
		joinDev(nodes)
		for _, n := range nodes {
			out = append(out, strings.Join(n.join, ","))
		}
		return out
	}
	hold := func(name string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "IDENTITY"), nil, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if got := plan(); !slices.Equal(got, []string{"", "1", "1"}) {
		t.Errorf("new: %q", got)
	}
	hold("n3")
	if got := plan(); !slices.Equal(got, []string{"3", "3", ""}) {
		t.Errorf("only n3 has data: %q", got)
	}
	hold("n1")
	if got := plan(); !slices.Equal(got, []string{"3", "1,3", "1"}) {
		t.Errorf("n1 and n3 have data: %q", got)
	}
}

func TestDevTexts(t *testing.T) {
	if got, want := shellLine([]string{"/bin/norn", "--data=a b", "", "it's", "a:1,b.c"}), `/bin/norn '--data=a b' '' 'it'\''s' a:1,b.c`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	log := write(t, "before\n"+strings.Repeat("line\n", 2000)+"last")
	if got := lastLines(log, 7); strings.Count(got, "\n") != lastCount-1 || !strings.HasSuffix(got, "line\nlast") {
		t.Errorf("got %q", got)
	}
	if got := lastLines(log, int64(len("before\n")+2000*len("line\n"))); got != "last" {
		t.Errorf("got %q", got)
	}
	also, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	p := &prefixed{to: &b, prefix: "n1 | ", also: also}
	for _, part := range []string{"a\nb", "c\n\x1b", "d"} {
		_, _ = io.WriteString(p, part)
	}
	p.close()
	if want := "n1 | a\nn1 | bc\nn1 |  d\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
	if kept, err := os.ReadFile(also.Name()); err != nil || string(kept) != "a\nbc\n\x1bd" {
		t.Errorf("kept %q, %v", kept, err)
	}
	_ = also.Close()
}

// TestDevIsReadyWhenANodeMayDie: a cluster that has only leaders would stop at the
// first kill.
func TestDevIsReadyWhenANodeMayDie(t *testing.T) {
	whole := func() *nornv1.StatusReply {
		s := &nornv1.StatusReply{Replicas: 3, Voters: []string{"n1", "n2", "n3"}}
		for _, name := range s.Voters {
			s.Nodes = append(s.Nodes, &nornv1.NodeStatus{Name: name, State: "up"})
		}
		for range 2 {
			s.Partitions = append(s.Partitions, &nornv1.PartitionStatus{Leader: "n1", Cohort: s.Voters, Planned: s.Voters, EnqueueAvailable: true, ClaimAvailable: true})
		}
		return s
	}
	if got := lacking(whole()); got != "" {
		t.Errorf("nothing is missing: %s", got)
	}
	for want, spoil := range map[string]func(*nornv1.StatusReply){ // Any order: each for itself.
		"1 of 2 partitions have a leader":           func(s *nornv1.StatusReply) { s.Partitions[1].Leader = "" },
		"0 of 0 partitions have a leader":           func(s *nornv1.StatusReply) { s.Partitions = nil },
		"1 of 2 partitions have 3 copies":           func(s *nornv1.StatusReply) { s.Partitions[0].Cohort = []string{"n1", "n2"} },
		"1 of 2 partitions take and give out tasks": func(s *nornv1.StatusReply) { s.Partitions[0].ClaimAvailable = false },
		"0 of 2 partitions take and give out tasks": func(s *nornv1.StatusReply) {
			s.Partitions[0].EnqueueAvailable, s.Partitions[1].EnqueueAvailable = false, false
		},
		"1 of 2 partitions are led by the node that is to lead them": func(s *nornv1.StatusReply) { s.Partitions[0].Leader = "n3" },
		"1 of 3 members of the register vote":                        func(s *nornv1.StatusReply) { s.Voters = s.Voters[:1] },
		"n2 is joining":                                              func(s *nornv1.StatusReply) { s.Nodes[1].State = "joining" },
	} {
		s := whole()
		spoil(s)
		if got := lacking(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	down := whole()
	down.Nodes[0].State, down.Partitions[0].Leader, down.Partitions[1].Leader = "down", "n2", "n3"
	if got := lacking(down); got != "" {
		t.Errorf("while the one that is to lead is down: %s", got)
	}
	alone := whole()
	alone.Nodes, alone.Voters = alone.Nodes[:1], alone.Voters[:1]
	alone.Partitions[0].Cohort, alone.Partitions[1].Cohort = alone.Voters, alone.Voters
	if got := lacking(alone); got != "" {
		t.Errorf("a node alone lacks: %s", got)
	}
}
