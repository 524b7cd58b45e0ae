package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// NotRun is returned when this machine or this build does not allow what a run
// is asked for. The text says why.
type NotRun struct{ Why string }

// Error gives the reason.
func (n *NotRun) Error() string { return "not run: " + n.Why }

// notRun makes a [NotRun].
func notRun(format string, args ...any) error { return &NotRun{fmt.Sprintf(format, args...)} }

// command runs a program of the system and gives what it printed; the error has
// what it complained of.
func command(name string, args ...string) (string, error) { return commandWith("", name, args...) }

// commandWith runs a program with an input.
func commandWith(in, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// privileged says why this process may not make namespaces, links and mounts;
// nil when it may.
func privileged(programs ...string) error {
	if runtime.GOOS != "linux" {
		return notRun("needs Linux")
	}
	if os.Geteuid() != 0 {
		return notRun("needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return notRun("needs the program %s", p)
		}
	}
	return nil
}

// namespaces says why this machine allows no network namespaces with packet
// filters; nil when it does.
func namespaces() error {
	if err := privileged("ip", "nft", "nsenter"); err != nil {
		return err
	}
	name := fmt.Sprintf("%s%dprobe", prefix, os.Getpid())
	if _, err := command("ip", "netns", "add", name); err != nil {
		return notRun("no network namespaces here (%v)", err)
	}
	_, err := command("nsenter", "--net="+netnsDir+name, "nft", "add", "table", "inet", "lab")
	if _, again := command("ip", "netns", "del", name); again != nil {
		return errors.Join(err, again)
	}
	if err != nil {
		return notRun("no packet filters here (%v)", err)
	}
	return nil
}
