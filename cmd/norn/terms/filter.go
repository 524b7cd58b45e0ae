package terms

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// FilterHelp explains what [Filter] reads, for --help.
const FilterHelp = `  queue=NAME
  state=STATE             repeatable: any of them
  kind=KIND
  tag=TAG                 repeatable: all of them
  error=TEXT              text in the task's error, case sensitive
  older-than=2h           enqueued longer ago than this (90s, 2h, 7d)
  created-before=TIME     RFC 3339, or a date; created-after= likewise
  finished-before=TIME    completed, dead or cancelled before; finished-after=
  attempts=3              has used at least so many attempts
  key=KEY                 its unique key
  worker=NAME             this worker has it now
  after=ID                it depends on this task; with state=waiting an index
                          has them
  header.NAME=VALUE       repeatable: all of them
  payload~TEXT            text in the payload, case sensitive
  payload.PATH=VALUE      value in a JSON payload, as in payload.user.id=7 or
                          payload.items.0.sku=x; repeatable: all of them

All must hold. Terms stand in one --filter with commas between them (\, is a
comma in a value), or in several. Terms on payloads have no index: all tasks that
the other terms leave are read, page by page, so give a queue too.`

// States are the names of the states of a task.
func States() []string {
	var out []string
	for s := nornv1.State_STATE_WAITING; s <= nornv1.State_STATE_CANCELLED; s++ {
		out = append(out, jsonform.EnumName(s))
	}
	return out
}

// State reads the name of a state.
func State(name string) (nornv1.State, error) {
	if i := slices.Index(States(), name); i >= 0 {
		return nornv1.State_STATE_WAITING + nornv1.State(i), nil
	}
	names := States()
	last := len(names) - 1
	return 0, fmt.Errorf("%q is not %s or %s", name, strings.Join(names[:last], ", "), names[last])
}

const (
	headerTerm  = "header."
	payloadTerm = "payload."
	textTerm    = "payload~"
)

// filterNames are the names of terms, but for headers, in the order of the help.
var filterNames = []string{
	"queue", "state", "kind", "tag", "error", "older-than", "created-before", "created-after", "finished-before", "finished-after",
	"attempts", "key", "worker", "after",
}

// FilterNames are the names of the terms of a filter.
func FilterNames() []string {
	return append(slices.Clone(filterNames), headerTerm, textTerm, payloadTerm)
}

// Filter reads the terms of all texts. n is how many there are.
func Filter(texts []string, now time.Time) (f client.Filter, n int, err error) {
	seen := make(map[string]bool)
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		for _, term := range split(text) {
			name, value, err := cut(term)
			if text, is := strings.CutPrefix(strings.TrimLeft(term, " "), textTerm); is {
				name, value, err = textTerm, text, nil
			}
			if err != nil {
				return f, 0, err
			}
			if seen[name] && name != "state" && name != "tag" {
				return f, 0, fmt.Errorf("%s is there twice", name)
			}
			seen[name] = true
			if err := setTerm(&f, name, value, now); err != nil {
				return f, 0, err
			}
			n++
		}
	}
	if seen["older-than"] && seen["created-before"] {
		return f, 0, errors.New("older-than and created-before are both there; give one")
	}
	return f, n, nil
}

// setNamed adds a condition whose name has a name in it; false: it is none of those.
func setNamed(f *client.Filter, name, value string) bool {
	if header, ok := strings.CutPrefix(name, headerTerm); ok && header != "" {
		if f.Headers == nil {
			f.Headers = make(map[string]string)
		}
		f.Headers[header] = value
		return true
	}
	if path, ok := strings.CutPrefix(name, payloadTerm); ok && path != "" {
		if f.PayloadPaths == nil {
			f.PayloadPaths = make(map[string]string)
		}
		f.PayloadPaths[path] = value
		return true
	}
	return false
}

// setTerm adds one condition.
func setTerm(f *client.Filter, name, value string, now time.Time) (err error) {
	if setNamed(f, name, value) {
		return nil
	}
	if value == "" && (slices.Contains(filterNames, name) || name == textTerm) {
		return fmt.Errorf("%s has no value", name)
	}
	switch name {
	case "queue":
		f.Queue = value
		if bad := proto.CheckQueue(value); bad != nil {
			return bad
		}
	case "state":
		s, err := State(value)
		if err != nil {
			return fmt.Errorf("state: %w", err)
		}
		if !slices.Contains(f.States, s) {
			f.States = append(f.States, s)
		}
	case "kind":
		f.Kind = value
		err = orNil(proto.CheckKind(value))
	case "tag":
		f.Tags = append(f.Tags, value)
		err = orNil(proto.CheckTags(f.Tags))
	case "error":
		f.ErrorContains = value
	case textTerm:
		f.PayloadContains = value
	case "older-than":
		var d time.Duration
		d, err = Duration(value)
		f.CreatedBefore = now.Add(-d)
	case "created-before":
		f.CreatedBefore, err = instant(value, utc)
	case "created-after":
		f.CreatedAfter, err = instant(value, utc)
	case "finished-before":
		f.FinishedBefore, err = instant(value, utc)
	case "finished-after":
		f.FinishedAfter, err = instant(value, utc)
	case "attempts":
		n, bad := strconv.ParseUint(value, 10, 31)
		if bad != nil {
			return fmt.Errorf("attempts: %q is not a number of attempts", value)
		}
		f.MinAttempts = int(n)
	case "key":
		f.Key = value
	case "worker":
		f.Worker = value
	case "after":
		f.DependsOn, err = id.Parse(value)
	default:
		return unknown("term", name, FilterNames())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// orNil makes an error that is none of one that is nil.
func orNil(err *proto.Error) error {
	if err == nil {
		return nil
	}
	return err
}

// utc is the zone of dates in a filter.
func utc() *time.Location { return time.UTC }
