package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/network"
)

// manifest is what the test heeds of one in docs/how-to/containers.md.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		ServiceName         string `yaml:"serviceName"`
		Replicas            int
		PodManagementPolicy string `yaml:"podManagementPolicy"`
		NotReadyToo         bool   `yaml:"publishNotReadyAddresses"`
		Template            struct{ Spec podSpec }
	}
}

type podSpec struct {
	Grace    int `yaml:"terminationGracePeriodSeconds"`
	Security struct {
		User  uint32 `yaml:"runAsUser"`
		Group uint32 `yaml:"runAsGroup"`
		Files int    `yaml:"fsGroup"`
	} `yaml:"securityContext"`
	Containers []struct {
		Env           []struct{ Name, Value string }
		Command, Args []string
		Liveness      probe `yaml:"livenessProbe"`
		Readiness     probe `yaml:"readinessProbe"`
		Lifecycle     struct {
			PreStop struct{ Exec struct{ Command []string } } `yaml:"preStop"`
		}
	}
}

type probe struct {
	Get struct {
		Path string
		Port int
	} `yaml:"httpGet"`
}

// manifests reads those of the page, by kind and name.
func manifests(t *testing.T) map[string]*manifest {
	t.Helper()
	all := make(map[string]*manifest)
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/how-to/containers.md"), -1) {
		for d := yaml.NewDecoder(strings.NewReader(block[1])); ; {
			m := &manifest{}
			err := d.Decode(m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all[m.Kind+" "+m.Metadata.Name] = m
		}
	}
	return all
}

// kubelet starts and stops pods as the manifests say.
type kubelet struct {
	t     *testing.T
	set   *manifest
	spec  *podSpec
	norn  string // a static program
	wires *network.Wires
	ends  int

	mu   sync.Mutex // guards what follows
	pods map[string]*pod
}

// pod is a container: a root of its own, which keeps its volume, an address that is new at
// each start, and processes of its own.
type pod struct {
	name, root string
	space      string // its network
	ip         string
	s          *server
}

// newKubelet builds what a container needs, and is skipped where there can be none.
func newKubelet(t *testing.T) *kubelet {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes containers")
	}
	wires, err := network.NewWires()
	var not *machine.NotRun
	if errors.As(err, &not) || err == nil && wires.Kind() != "network namespaces" {
		t.Skipf("no namespaces of networks can be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{t: t, set: manifests(t)["StatefulSet norn"], wires: wires, norn: filepath.Join(t.TempDir(), "norn"), pods: make(map[string]*pod)}
	k.spec = &k.set.Spec.Template.Spec
	t.Cleanup(func() {
		for _, p := range k.running() {
			_ = p.s.cmd.Process.Kill()
			<-p.s.done
			if t.Failed() {
				t.Logf("the log of %s:\n%s", p.name, endOf(p.s.log.String(), 6000))
			}
		}
		if err := wires.Close(); err != nil {
			t.Error(err)
		}
	})
	build := exec.Command("go", "build", "-buildvcs=false", "-o", k.norn, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v", out, err)
	}
	return k
}

func (k *kubelet) running() (all []*pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pod) int { return strings.Compare(a.name, b.name) })
	return all
}

// root makes that of a pod, as it is in an image, with its volume.
func (k *kubelet) root(name string) string {
	k.t.Helper()
	root := filepath.Join(filepath.Dir(k.norn), name)
	if _, err := os.Stat(root); err == nil {
		return root
	}
	must := func(err error) {
		if err != nil {
			k.t.Fatal(err)
		}
	}
	for _, dir := range []string{"usr/local/bin", "etc/norn", "var/lib"} {
		must(os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(os.Link(k.norn, filepath.Join(root, "usr/local/bin/norn")))
	must(os.WriteFile(filepath.Join(root, "etc/nsswitch.conf"), []byte("hosts: files\n"), 0o644))
	secret := filepath.Join(root, "etc/norn/peer-secret")
	must(os.WriteFile(secret, []byte("the-secret-of-this-test\n"), 0o440))
	must(os.Chown(secret, 0, k.spec.Security.Files))
	k.wipe(name)
	return root
}

// wipe gives a pod an empty volume, whose group is fsGroup.
func (k *kubelet) wipe(name string) {
	k.t.Helper()
	volume := filepath.Join(filepath.Dir(k.norn), name, "var/lib/norn")
	err := errors.Join(os.RemoveAll(volume), os.Mkdir(volume, 0o755), os.Chown(volume, 0, k.spec.Security.Files), os.Chmod(volume, 0o2775))
	if err != nil {
		k.t.Fatal(err)
	}
}

// start starts a pod with arguments of the template.
func (k *kubelet) start(ordinal int) *pod {
	k.t.Helper()
	name := k.set.Metadata.Name + "-" + strconv.Itoa(ordinal)
	end, err := k.wires.End(k.ends)
	if err != nil {
		k.t.Fatal(err)
	}
	k.ends++
	ip, _, _ := strings.Cut(end.Listen, ":")
	p := &pod{name: name, root: k.root(name), ip: ip, space: strings.TrimPrefix(end.Host[1], "--net=")}
	k.mu.Lock()
	k.pods[name] = p
	k.mu.Unlock()
	k.hosts()
	k.launch(p)
	return p
}

// launch starts the container of a pod.
func (k *kubelet) launch(p *pod) {
	k.t.Helper()
	c := k.spec.Containers[0]
	args := slices.Concat(c.Command, c.Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "$(POD)", p.name)
	}
	cmd := k.command(p, args)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	err := within(p.space, func() (err error) {
		p.s, err = launchAs(cmd)
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

// command is one in a container.
func (k *kubelet) command(p *pod, args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	s := k.spec.Security
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: p.root, Credential: &syscall.Credential{Uid: s.User, Gid: s.Group, Groups: []uint32{uint32(s.Files)}}}
	return cmd
}

// within does something in a namespace of networks, on a thread that ends then.
func within(space string, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		f, err := os.Open(space)
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			_ = f.Close()
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// hosts tells all pods the names of all: of those that are not ready, too.
func (k *kubelet) hosts() {
	k.t.Helper()
	if !k.set.Spec.Template.Spec.ready() || k.set.Spec.PodManagementPolicy != "Parallel" {
		k.t.Fatal("the manifest has no probes, or starts pods one by one")
	}
	text := "127.0.0.1 localhost\n"
	for _, p := range k.running() {
		text += p.ip + " " + p.name + "." + k.set.Spec.ServiceName + "\n"
	}
	for _, p := range k.running() {
		if err := os.WriteFile(filepath.Join(p.root, "etc/hosts"), []byte(text), 0o644); err != nil {
			k.t.Fatal(err)
		}
	}
}

func (s *podSpec) ready() bool {
	return s.Containers[0].Readiness.Get.Path != "" && s.Containers[0].Liveness.Get.Path != ""
}

// probe asks a pod.
func (p *pod) probe(what probe) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d%s", p.ip, what.Get.Port, what.Get.Path), nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// isReady waits until pods are ready, and alive all the time once they have been.
func (k *kubelet) isReady(pods ...*pod) {
	k.t.Helper()
	c := k.spec.Containers[0]
	alive := make(map[*pod]bool)
	for _, p := range pods {
		eventually(k.t, p.name+" is ready", func() bool {
			lives := p.probe(c.Liveness)
			if alive[p] && !lives {
				k.t.Fatalf("%s would be killed by its liveness probe", p.name)
			}
			alive[p] = lives
			return p.probe(c.Readiness)
		})
	}
}

// stop is the end of a pod: preStop, SIGTERM, and both within the time that it has.
func (k *kubelet) stop(p *pod) {
	k.t.Helper()
	until := time.Now().Add(time.Duration(k.spec.Grace) * time.Second)
	var out []byte
	err := within(p.space, func() (err error) {
		hook := k.command(p, k.spec.Containers[0].Lifecycle.PreStop.Exec.Command)
		out, err = hook.CombinedOutput()
		return err
	})
	if err != nil {
		k.t.Errorf("preStop of %s: %v: %s", p.name, err, out)
	}
	k.end(p)
	if time.Now().After(until) {
		k.t.Errorf("%s takes longer to stop than it has", p.name)
	}
}

// end is a SIGTERM alone.
func (k *kubelet) end(p *pod) {
	k.t.Helper()
	if code, err := p.s.end(syscall.SIGTERM); code != 0 || err != nil {
		k.t.Errorf("%s ends with %d, %v", p.name, code, err)
	}
	k.mu.Lock()
	delete(k.pods, p.name)
	k.mu.Unlock()
}

// rollout replaces all pods, the last one first, each once the one before is ready.
func (k *kubelet) rollout(emptied bool) {
	k.t.Helper()
	all := k.running()
	for i := range slices.Backward(all) {
		began := time.Now()
		k.stop(all[i])
		if emptied {
			k.wipe(all[i].name)
		}
		k.isReady(k.start(i))
		k.t.Logf("%s is replaced after %v", all[i].name, time.Since(began).Round(100*time.Millisecond))
	}
}

// dial connects to the Service of clients: one address, and some pod that is ready.
func (k *kubelet) dial(ctx context.Context, _ string) (net.Conn, error) {
	all := k.running()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, p := range all {
		if p.probe(k.spec.Containers[0].Readiness) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", p.ip+":7711")
		}
	}
	return nil, errors.New("no pod is ready")
}

// load enqueues through the Service until it is stopped.
type containerLoad struct {
	k       *kubelet
	client  *client.Client
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // guards acked
	acked   map[string]bool
}

func (k *kubelet) load() *containerLoad {
	k.t.Helper()
	ctx, cancel := context.WithCancel(k.t.Context())
	l := &containerLoad{k: k, cancel: cancel, acked: make(map[string]bool)}
	var err error
	if l.client, err = client.Dial(ctx, []string{"norn:7711"}, client.WithDialer(k.dial)); err != nil {
		k.t.Fatal(err)
	}
	for range 4 {
		l.running.Go(func() {
			for ctx.Err() == nil {
				if r, err := l.client.Enqueue(ctx, client.Task{Queue: "load", Payload: make([]byte, 100)}); err == nil {
					l.mu.Lock()
					l.acked[r.GetId()] = true
					l.mu.Unlock()
				} else if ctx.Err() == nil {
					k.t.Errorf("enqueue: %v", err)
				}
			}
		})
	}
	return l
}

func (l *containerLoad) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// end stops the load.
func (l *containerLoad) end() {
	l.cancel()
	l.running.Wait()
	_ = l.client.Close()
}

// kept checks that all that was acknowledged is there, through each pod.
func (l *containerLoad) kept() {
	l.k.t.Helper()
	for _, p := range l.k.running() {
		r := nornWith(l.k.t, "", []string{"NORN_ADDR=" + p.ip + ":7711"}, "task", "list", "-q", "load", "--all", "-o", "jsonl")
		if r.code != 0 {
			l.k.t.Fatalf("%+v", r.err)
		}
		there := make(map[string]bool)
		for line := range strings.Lines(r.out) {
			var task struct{ ID string }
			if err := json.Unmarshal([]byte(line), &task); err != nil {
				l.k.t.Fatal(err)
			}
			there[task.ID] = true
		}
		missing := 0
		for id := range l.acked {
			if !there[id] {
				missing++
			}
		}
		if missing > 0 {
			l.k.t.Errorf("%s has not %d of %d acknowledged tasks", p.name, missing, len(l.acked))
		}
	}
}

// nodes are the names of the members.
func (k *kubelet) nodes() (all []string) {
	k.t.Helper()
	r := nornWith(k.t, "", []string{"NORN_ADDR=" + k.running()[0].ip + ":7711"}, "cluster", "status", "-o", "json")
	var status struct{ Nodes []struct{ Name string } }
	if err := json.Unmarshal([]byte(r.out), &status); err != nil {
		k.t.Fatalf("%v: %+v", err, r)
	}
	for _, n := range status.Nodes {
		all = append(all, n.Name)
	}
	slices.Sort(all)
	return all
}

// scale makes them more, as the page says.
func (k *kubelet) scale(to int) {
	k.t.Helper()
	names := ""
	for i := range to {
		names += fmt.Sprintf(",norn-%d.%s:7712", i, k.set.Spec.ServiceName)
	}
	args := k.spec.Containers[0].Args
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "--join="):
			args[i] = "--join=" + names[1:]
		case strings.HasPrefix(a, "--bootstrap-expect="):
			args[i] = "--bootstrap-expect=" + strconv.Itoa(to)
		}
	}
	k.rollout(false)
	var added []*pod
	for i := len(k.running()); i < to; i++ {
		added = append(added, k.start(i))
	}
	k.isReady(added...)
}

// shrink has the last one leave, as the page says.
func (k *kubelet) shrink() {
	k.t.Helper()
	all := k.running()
	last := all[len(all)-1]
	to := []string{"NORN_ADDR=" + all[0].ip + ":7711"}
	if r := nornWith(k.t, "", to, "cluster", "leave", last.name, "--wait", "2m"); r.code != 0 {
		k.t.Fatalf("%+v", r)
	}
	select {
	case <-last.s.done:
	case <-time.After(patience):
		k.t.Fatalf("%s has left and goes on", last.name)
	}
	if code := last.s.cmd.ProcessState.ExitCode(); code != 0 {
		k.t.Errorf("%s has left and ends with %d", last.name, code)
	}
	k.launch(last) // Kubernetes starts it again
	eventually(k.t, last.name+" is started again", func() bool { return last.probe(k.spec.Containers[0].Liveness) })
	k.end(last)
	if r := nornWith(k.t, "", to, "cluster", "leave", last.name); r.code != cli.ExitOK && r.code != cli.ExitNotFound {
		k.t.Errorf("it is withdrawn: %+v", r)
	}
	eventually(k.t, last.name+" is no member", func() bool { return !slices.Contains(k.nodes(), last.name) })
}
