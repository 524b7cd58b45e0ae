package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// NotRun is returned when this machine or this build does not allow what a run
// is asked for. The text says why.
type NotRun struct{ Why string }

// Error gives the reason.
func (n *NotRun) Error() string { return "not run: " + n.Why }

// Unable makes a [NotRun].
func Unable(format string, args ...any) error { return &NotRun{fmt.Sprintf(format, args...)} }

// Command runs a program of the system and gives what it printed; the error has
// what it complained of.
func Command(name string, args ...string) (string, error) { return CommandWith("", name, args...) }

// CommandWith runs a program with an input.
func CommandWith(in, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// Privileged says why this process may not make namespaces, links and mounts;
// nil when it may.
func Privileged(programs ...string) error {
	if runtime.GOOS != "linux" {
		return Unable("needs Linux")
	}
	if os.Geteuid() != 0 {
		return Unable("needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return Unable("needs the program %s", p)
		}
	}
	return nil
}

// Namespaces says why this machine allows no network namespaces with packet
// filters; nil when it does.
func Namespaces() error {
	if err := Privileged("ip", "nft", "nsenter"); err != nil {
		return err
	}
	name := fmt.Sprintf("%s%dprobe", Prefix, os.Getpid())
	if _, err := Command("ip", "netns", "add", name); err != nil {
		return Unable("no network namespaces here (%v)", err)
	}
	_, err := Command("nsenter", "--net="+NetnsDir+name, "nft", "add", "table", "inet", "lab")
	if _, again := Command("ip", "netns", "del", name); again != nil {
		return errors.Join(err, again)
	}
	if err != nil {
		return Unable("no packet filters here (%v)", err)
	}
	return nil
}

// Patience is how long a program may take to end, or to serve.
const Patience = 30 * time.Second
