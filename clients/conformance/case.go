package conformance

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/liar"
)

// Case is one thing that every client does.
type Case struct {
	Name string `yaml:"name"`
	// Liar has the lies between client and server; nil: there is nobody between.
	Liar  *[]liar.Rule `yaml:"liar"`
	Steps []Step       `yaml:"steps"`
}

// Step is what is to be done, and what must come of it.
type Step struct {
	Do   string         `yaml:"do"`
	With map[string]any `yaml:"with"`
	// As names the task, or the claims, for steps behind it.
	As string `yaml:"as"`
	// Via is "server" for a step that goes around the liar.
	Via string `yaml:"via"`
	// Timeout of the call in seconds; 0: that of the client.
	Timeout float64 `yaml:"timeout"`
	// Want is what must come, at least.
	Want map[string]any `yaml:"want"`
}

// Load reads a list. A word that it does not know is an error.
func Load(path string) ([]Case, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Cases []Case `yaml:"cases"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list.Cases, nil
}

var queues atomic.Int64

// run is a case that runs.
type run struct {
	queue   string
	clients map[string]*client.Client
	liar    *liar.Liar
	tasks   map[string]id.ID
	claims  map[string][]*client.Claim
	seqs    map[id.ID]uint64 // number of the next update
}

// Run has the client in Go do it, against the server at the address. The error says which
// step came out otherwise.
func (c Case) Run(ctx context.Context, addr string) error {
	r := &run{
		queue:   fmt.Sprintf("conformance-go-%d-%d", os.Getpid(), queues.Add(1)),
		clients: map[string]*client.Client{}, tasks: map[string]id.ID{}, claims: map[string][]*client.Claim{}, seqs: map[id.ID]uint64{},
	}
	addresses := map[string]string{"server": addr, "": addr}
	if c.Liar != nil {
		l, err := liar.New(addr, *c.Liar)
		if err != nil {
			return err
		}
		defer l.Close()
		r.liar, addresses[""] = l, l.Addr()
	}
	for via, at := range addresses {
		one, err := client.Dial(ctx, []string{at}, client.WithAgent("conformance"))
		if err != nil {
			return err
		}
		defer func() { _ = one.Close() }()
		r.clients[via] = one
	}
	for i, s := range c.Steps {
		if err := r.step(ctx, s); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.Do, err)
		}
	}
	return nil
}

func (r *run) step(ctx context.Context, s Step) error {
	do := operations()[s.Do]
	if do == nil {
		return fmt.Errorf("there is no such operation")
	}
	with := args{s.With}
	ctx, cancel := context.WithTimeout(ctx, seconds(cmp.Or(s.Timeout, 30+with.number("wait"))))
	defer cancel()
	got, err := do(ctx, r, r.clients[s.Via], s, with)
	if err != nil {
		if got == nil {
			got = map[string]any{}
		}
		got["error"], got["unknown"], got["text"] = kindOf(err), unknown(err), err.Error()
	}
	if _, wanted := s.Want["error"]; err != nil && !wanted && s.Do != "get" {
		return err
	}
	return fits("", s.Want, got)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fits compares what was wanted with what came: of maps the members that were wanted, of a
// list of texts any, numbers also with bounds.
func fits(at string, want, got any) error {
	switch w := want.(type) {
	case map[string]any:
		if text, ok := w["contains"]; ok {
			if !strings.Contains(fmt.Sprint(got), fmt.Sprint(text)) {
				return fmt.Errorf("%s: %v does not contain %v", at, got, text)
			}
			return nil
		}
		if within, is := bounded(w, got); is {
			if !within {
				return fmt.Errorf("%s: %v is not within %v", at, got, w)
			}
			return nil
		}
		return members(at, w, got)
	case []any:
		all, ok := got.([]any)
		if !ok { // one of them
			for _, one := range w {
				if fits(at, one, got) == nil {
					return nil
				}
			}
			return fmt.Errorf("%s: %v is none of %v", at, got, w)
		}
		if len(all) != len(w) {
			return fmt.Errorf("%s: %v is not %v", at, got, w)
		}
		for i := range w {
			if err := fits(fmt.Sprintf("%s[%d]", at, i), w[i], all[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if a, ok := number(want); ok {
		if b, ok := number(got); ok && a == b {
			return nil
		}
	} else if reflect.DeepEqual(want, got) {
		return nil
	}
	return fmt.Errorf("%s: it is %v, not %v", at, got, want)
}

func members(at string, want map[string]any, got any) error {
	all, ok := got.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %v has no members", at, got)
	}
	for name, w := range want { // Any order: each is compared by itself.
		g, is := all[name]
		if n, zero := number(w); !is && zero && n == 0 {
			continue
		}
		if err := fits(at+"."+name, w, g); err != nil {
			return fmt.Errorf("%w (all of it: %v)", err, got)
		}
	}
	return nil
}

// bounded compares with over and under, if want has them.
func bounded(want map[string]any, got any) (within, is bool) {
	over, hasOver := number(want["over"])
	under, hasUnder := number(want["under"])
	if !hasOver && !hasUnder {
		return false, false
	}
	n, ok := number(got)
	return ok && (!hasOver || n > over) && (!hasUnder || n < under), true
}

func number(v any) (float64, bool) {
	switch n := reflect.ValueOf(v); {
	case n.CanInt():
		return float64(n.Int()), true
	case n.CanUint():
		return float64(n.Uint()), true
	case n.CanFloat():
		return n.Float(), true
	}
	return 0, false
}
