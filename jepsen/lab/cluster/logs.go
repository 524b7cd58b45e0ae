package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// alarms are what must never be in the log of a node (I18).
var alarms = []string{"panic:", "fatal error:", "DATA RACE", "goroutine stack exceeds"}

// portTaken is in the last words of a node that ended because somebody has one of its ports.
const portTaken = "address already in use"

// logOf gives the end of a node's log as an error, for one that does not serve.
func (l *Lab) logOf(p *Process) error {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err
	}
	return errors.New("the end of its log: " + string(b[max(0, len(b)-2000):]))
}

// Alarmed looks for what must never be in a log.
func (l *Lab) Alarmed(p *Process) error {
	f, err := os.Open(p.Log)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		for _, a := range alarms {
			if strings.Contains(lines.Text(), a) {
				l.Found("internal", "the log of %s has: %.300s", p.Name, lines.Text())
				return lines.Err()
			}
		}
	}
	return lines.Err()
}

// LastWords are the last line of a node's log.
func (p *Process) LastWords() string {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}

// Portraits keeps what each node says of a cluster that does not recover, beside
// the logs, before everything is stopped: nobody could ask later.
func Portraits(l *Lab) error {
	if l.Cfg.Logs == "" {
		return nil
	}
	all := []error{os.MkdirAll(l.Cfg.Logs, 0o755)}
	for _, p := range l.Members() {
		said := []byte("it does not say")
		ctx, cancel := context.WithTimeout(context.Background(), machine.Patience)
		if s, err := l.Status(ctx, p); err != nil {
			said = []byte(err.Error())
		} else if b, err := (protojson.MarshalOptions{Multiline: true}).Marshal(s); err == nil {
			said = b
		}
		cancel()
		all = append(all, os.WriteFile(filepath.Join(l.Cfg.Logs, p.Name+".status.json"), said, 0o644))
	}
	return errors.Join(all...)
}

// SaveLogs keeps the logs of all nodes.
func (l *Lab) SaveLogs() error {
	if l.Cfg.Logs == "" {
		return nil
	}
	all := []error{os.MkdirAll(l.Cfg.Logs, 0o755)}
	for _, p := range l.Nodes {
		b, err := os.ReadFile(p.Log)
		all = append(all, err, os.WriteFile(filepath.Join(l.Cfg.Logs, p.Name+".log"), b, 0o644))
	}
	return errors.Join(all...)
}

// Event is a line of a node's log.
type Event struct {
	Msg      string
	For      string // of clock.suspended
	Offset   string // of clock.set_wrong
	Settings string // of tls.reloaded
}

// Logged are the lines of the node's log that tell of an event, in all its lives.
func (p *Process) Logged(name string) (all []Event, err error) {
	b, err := os.ReadFile(p.Log)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var e Event
		if bytes.Contains(line, []byte(name)) && json.Unmarshal(line, &e) == nil && e.Msg == name {
			all = append(all, e)
		}
	}
	return all, nil
}
