package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/cmd/norn/cli"
)

// TestContainers does what docs/how-to/containers.md says, in bare containers.
func TestContainers(t *testing.T) {
	thorough(t)
	k := newKubelet(t)
	var first []*pod
	for i := range k.set.Spec.Replicas {
		first = append(first, k.start(i))
	}
	k.isReady(first...)
	if got := k.nodes(); !slices.Equal(got, []string{"norn-0", "norn-1", "norn-2"}) {
		t.Fatalf("one template makes a cluster of %v", got)
	}
	load := k.load()
	defer load.end()
	more := func(what string, do func()) {
		t.Helper()
		n, began := load.count(), time.Now()
		do()
		t.Logf("%s: %v, %d tasks were taken meanwhile", what, time.Since(began).Round(100*time.Millisecond), load.count()-n)
		if load.count() == n {
			t.Errorf("%s: no task was taken", what)
		}
	}
	more("empty disks", func() { k.rollout(true) })
	more("three to five", func() { k.scale(5) })
	more("five to three", func() { k.shrink(); k.shrink() })
	more("three to five on the volumes of those that left", func() { k.scale(5) })
	more("five to three again", func() { k.shrink(); k.shrink() })
	load.end()
	load.kept()
	k.fullStop()
	load.kept()
	k.exits()
	k.worker()
}

// fullStop stops all, and starts them again: one alone is not ready.
func (k *kubelet) fullStop() {
	k.t.Helper()
	for _, p := range k.running() {
		k.end(p)
	}
	first := k.start(0)
	c := k.spec.Containers[0]
	eventually(k.t, "the first one lives", func() bool { return first.probe(c.Liveness) })
	until := time.Now().Add(8 * time.Second)
	eventually(k.t, "one alone is not ready", func() bool {
		if first.probe(c.Readiness) || !first.probe(c.Liveness) {
			k.t.Fatal("one of three is ready, or does not live")
		}
		return time.Now().After(until)
	})
	k.isReady(first, k.start(1), k.start(2))
}

// exits are codes of the page.
func (k *kubelet) exits() {
	k.t.Helper()
	c := &k.spec.Containers[0]
	good := c.Args
	c.Args = append(slices.Clone(good), "--replicas=0")
	k.end(k.running()[2])
	p := k.start(2)
	<-p.s.done
	if code := p.s.cmd.ProcessState.ExitCode(); code != cli.ExitServerUsage {
		k.t.Errorf("a mistake in the arguments ends with %d: %s", code, p.s.log.String())
	}
	c.Args = good
	k.isReady(k.start(2))
}

// worker is the container of the page's Deployment: what runs when it is told to stop is
// finished.
func (k *kubelet) worker() {
	k.t.Helper()
	spec := manifests(k.t)["Deployment mailer"].Spec.Template.Spec
	c := spec.Containers[0]
	bin := k.t.TempDir()
	script := "#!/bin/sh\ntouch " + bin + "/begun\n(sleep 0.1 &)\nsleep 1\necho sent\n"
	if err := os.WriteFile(filepath.Join(bin, "send-mail"), []byte(script), 0o755); err != nil {
		k.t.Fatal(err)
	}
	to := []string{"NORN_ADDR=" + k.running()[0].ip + ":7711"}
	r := nornWith(k.t, "", to, "task", "enqueue", "-q", "mail", "x")
	cmd, out := exec.Command(k.norn, c.Command[1:]...), &buffer{}
	cmd.Env = environment(to[0], "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	eventually(k.t, "the command runs", func() bool { return exists(filepath.Join(bin, "begun")) })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		k.t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			k.t.Errorf("%v: %s", err, out.String())
		}
	case <-time.After(time.Duration(spec.Grace) * time.Second):
		_ = cmd.Process.Kill()
		k.t.Fatalf("it does not end in the time that it has: %s", out.String())
	}
	if r := nornWith(k.t, "", to, "task", "get", strings.TrimSpace(r.out)); !strings.Contains(r.out, "completed") {
		k.t.Errorf("%+v", r)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestContainersPage: what the page names is there.
func TestContainersPage(t *testing.T) {
	all := manifests(t)
	set := all["StatefulSet norn"]
	if nodes := all["Service "+set.Spec.ServiceName]; nodes == nil || !nodes.Spec.NotReadyToo {
		t.Error("the names of nodes that are not ready are not found")
	}
	flags := slices.Concat(set.Spec.Template.Spec.Containers[0].Args)
	for i, a := range flags {
		flags[i] = strings.ReplaceAll(a, "$(POD)", "norn-0")
	}
	file := write(t, "secret\n")
	args := append([]string{"server", "--print-config"}, flags...)
	args = append(args, "--peer-secret-file="+file)
	if r := norn(t, args...); r.code != 0 || !strings.Contains(r.out, "bootstrap-expect: 3") {
		t.Errorf("%+v", r)
	}
	page := read(t, "../../docs/how-to/containers.md")
	for _, code := range []int{cli.ExitServerUsage, cli.ExitDamaged, cli.ExitUnable, cli.ExitUnavailable} {
		if !strings.Contains(page, fmt.Sprint(code)) {
			t.Errorf("the page does not name exit code %d", code)
		}
	}
	work := all["Deployment mailer"].Spec.Template.Spec
	var finish, grace time.Duration
	for i, a := range work.Containers[0].Command {
		switch a {
		case "--finish-timeout":
			finish, _ = time.ParseDuration(work.Containers[0].Command[i+1])
		case "--grace":
			grace, _ = time.ParseDuration(work.Containers[0].Command[i+1])
		}
	}
	if sum := finish + grace; finish == 0 || grace == 0 || sum >= time.Duration(work.Grace)*time.Second {
		t.Errorf("%v and %v are not under the %d s that the worker has", finish, grace, work.Grace)
	}
}
