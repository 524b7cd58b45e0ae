package lab

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
)

// alarms are what must never be in the log of a node (I18).
var alarms = []string{"panic:", "fatal error:", "DATA RACE", "goroutine stack exceeds"}

// logOf gives the end of a node's log as an error, for one that does not serve.
func (l *lab) logOf(p *process) error {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	return errors.New("the end of its log: " + string(b[max(0, len(b)-2000):]))
}

// alarmed looks for what must never be in a log.
func (l *lab) alarmed(p *process) error {
	f, err := os.Open(p.log)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		for _, a := range alarms {
			if strings.Contains(lines.Text(), a) {
				l.found("internal", "the log of %s has: %.300s", p.name, lines.Text())
				return lines.Err()
			}
		}
	}
	return lines.Err()
}

// lastWords are the last line of a node's log.
func (p *process) lastWords() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	last := lines[len(lines)-1]
	return last[:min(len(last), 300)]
}

// portraits keeps what each node says of a cluster that does not recover, beside
// the logs, before everything is stopped: nobody could ask later.
func portraits(l *lab) error {
	if l.cfg.Logs == "" {
		return nil
	}
	all := []error{os.MkdirAll(l.cfg.Logs, 0o755)}
	for _, p := range l.members() {
		said := []byte("it does not say")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if s, err := l.status(ctx, p); err != nil {
			said = []byte(err.Error())
		} else if b, err := (protojson.MarshalOptions{Multiline: true}).Marshal(s); err == nil {
			said = b
		}
		cancel()
		all = append(all, os.WriteFile(filepath.Join(l.cfg.Logs, p.name+".status.json"), said, 0o644))
	}
	return errors.Join(all...)
}

// saveLogs keeps the logs of all nodes.
func (l *lab) saveLogs() error {
	if l.cfg.Logs == "" {
		return nil
	}
	all := []error{os.MkdirAll(l.cfg.Logs, 0o755)}
	for _, p := range l.nodes {
		b, err := os.ReadFile(p.log)
		all = append(all, err, os.WriteFile(filepath.Join(l.cfg.Logs, p.name+".log"), b, 0o644))
	}
	return errors.Join(all...)
}
