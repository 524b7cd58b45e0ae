package verdict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
	"github.com/norn-dev/norn/proto"
)

// maxPictures is of how many tasks there is a picture: the first tell it all.
const maxPictures = 3

// Keep writes what came of a run into a directory: reports for people (.md and
// .html, with porcupine's pictures of claims that are wrong), the history
// (.jsonl), and what is needed to judge it again (.json).
func (r *Result) Keep(dir string) error {
	name := filepath.Join(dir, r.Config.Name())
	pictures, err := r.pictures(name)
	if err != nil {
		return err
	}
	page := func(w io.Writer) error { return r.HTML(w, pictures...) }
	data := func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return errors.Join(
		into(name+".md", r.Markdown), into(name+".html", page), into(name+".json", data),
		into(name+".jsonl", func(w io.Writer) error { return history.Write(w, r.Events) }))
}

// into writes a file.
func into(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, b.Bytes(), 0o644)
}

// pictures draws the first tasks whose claims are wrong, and gives the names of
// the files.
func (r *Result) pictures(name string) (files []string, err error) {
	if len(r.broken) == 0 {
		return nil, nil
	}
	book := r.book()
	for _, task := range r.broken[:min(len(r.broken), maxPictures)] {
		var b bytes.Buffer
		drawn, err := book.Picture(task, &b)
		if err != nil {
			return nil, err
		}
		if drawn {
			file := fmt.Sprintf("%s-%s.html", name, task)
			if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
				return nil, err
			}
			files = append(files, filepath.Base(file))
		}
	}
	return files, nil
}

// book is the ledger of the run's history.
func (r *Result) book() *check.Ledger {
	w, _ := workloads.Named(r.Config.Workload)
	o := check.LedgerOptions{Partitions: cluster.Partitions, Wall: r.Began, Skew: int64(workloads.ClockSkew), Retention: int64(w.Kept)}
	if o.Healthy = r.healthy(); o.Healthy != nil {
		o.Passing, o.Apart = int64(workloads.Passing), true
	}
	book := check.NewLedger(o)
	for _, e := range r.Events {
		book.Add(e)
	}
	return book
}

// Again judges a run anew that [Result.Keep] has kept: path is one of its files.
// What the run itself has seen and is not in its history stays as it was.
func Again(path string) (*Result, error) {
	name := strings.TrimSuffix(strings.TrimSuffix(path, filepath.Ext(path)), ".")
	b, err := os.ReadFile(name + ".json")
	if err != nil {
		return nil, fmt.Errorf("a run is judged again by its .json and .jsonl: %w", err)
	}
	r := &Result{}
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s.json: %w", name, err)
	}
	f, err := os.Open(name + ".jsonl")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := history.Read(f, func(e *history.Event) bool { r.Events = append(r.Events, e); return true }); err != nil {
		return nil, fmt.Errorf("%s.jsonl: %w", name, err)
	}
	r.judge()
	return r, nil
}

// judge holds the history of a run to the promises, and decides.
func (r *Result) judge() {
	r.Findings, r.Missing, r.Ledger, r.broken, r.Verdict = append([]string(nil), r.Seen...), nil, nil, nil, Passed
	w, _ := workloads.Named(r.Config.Workload)
	o := check.Options{
		Partitions: cluster.Partitions, Unfenced: r.Config.Unfenced, Elected: !r.Config.Unfenced, Lossy: r.Lossy,
		Retention: int64(w.Kept), Slack: int64(min(w.Kept, time.Second)),
	}
	if o.Elected && !record.Stepped(r.Events) { // else a claim may end when a wrong clock says so
		o.Lease, o.Attempts = int64(workloads.ShortLease-workloads.ShortLease/20), proto.DefaultAttempts
	}
	c := check.New(o)
	var v *check.Violation
	for _, e := range r.Events {
		if v = c.Event(e); v != nil {
			break
		}
	}
	if v == nil && !r.Cut {
		v = c.Finish()
	}
	if v != nil {
		r.Findings = append(r.Findings, fmt.Sprintf("%v (at %.3f s)", v, float64(v.At)/1e9))
		r.breaks(v.Task)
	}
	if r.Claims {
		r.ledger()
	}
	acked, sent := record.TasksOf(r.Events)
	r.Acked, r.Sent = len(acked), len(sent)
	r.Tallies = count(r.Events)
	r.happened()
	switch {
	case r.Ended:
		r.Verdict = Invalid
	case len(r.Findings) > 0:
		r.Verdict = Violated
	case len(r.Missing) > 0:
		r.Verdict = Invalid
	}
}

// breaks notes a task whose claims are to be drawn.
func (r *Result) breaks(task id.ID) {
	if !task.IsZero() {
		r.broken = append(r.broken, task)
	}
}

// healthy are the times in which the order of grants counts.
func (r *Result) healthy() (all []check.Window) {
	for _, w := range r.Calm {
		all = append(all, check.Window{From: int64(w.From), To: int64(w.To)})
	}
	return all
}
