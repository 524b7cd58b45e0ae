package terms

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"go.yaml.in/yaml/v3"
)

// FileSchedule is a schedule of a file.
type FileSchedule struct {
	Name string
	Spec *nornv1.ScheduleSpec
	// Paused says that the file says whether it is paused.
	Paused bool
	Line   int
}

// ScheduleFile reads a file of schedules: documents of YAML (or JSON), each one
// schedule, a list of them, or `schedules:` with a list. Problems name file and
// line, all of them.
func ScheduleFile(file string, b []byte) (all []FileSchedule, err error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff")) // some editors begin a file with it
	r := &fileReader{file: file, lines: make(map[string]int)}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	for {
		var doc yaml.Node
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w%s", file, err, unquoted(b))
		}
		r.document(doc.Content[0])
	}
	if len(r.problems) == 0 && len(r.all) == 0 {
		return nil, fmt.Errorf("%s: %w", file, errNoSchedules)
	}
	return r.all, errors.Join(r.problems...)
}

// unquotedCron is a cron line that YAML does not read as text: * and @ begin something else there.
var unquotedCron = regexp.MustCompile(`(?m)^[ \t-]*"?cron"?[ \t]*:[ \t]*([*@][^\r\n#]*?)[ \t]*(#.*)?\r?$`)

// unquoted is a hint for a file that is no YAML because of a cron line without quotes.
func unquoted(b []byte) string {
	m := unquotedCron.FindSubmatchIndex(b)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("; line %d: quote what begins with * or @: cron: '%s'", 1+bytes.Count(b[:m[2]], []byte("\n")), b[m[2]:m[3]])
}

type fileReader struct {
	file     string
	all      []FileSchedule
	lines    map[string]int // by name
	problems []error
}

func (r *fileReader) bad(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s:%d: "+format, append([]any{r.file, n.Line}, args...)...))
}

func (r *fileReader) document(n *yaml.Node) {
	switch {
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			r.schedule(item)
		}
	case n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == "schedules":
		if n.Content[1].Kind != yaml.SequenceNode {
			r.bad(n.Content[1], "schedules: expected a list")
			return
		}
		r.document(n.Content[1])
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null": // an empty document
	default:
		r.schedule(n)
	}
}

func (r *fileReader) schedule(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "expected a schedule, one `name: value` per line")
		return
	}
	s, fields := FileSchedule{Spec: &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{}}, Line: n.Line}, ScheduleFields()
	names := []string{"name", "headers"}
	for i := range fields {
		names = append(names, fields[i].Name)
	}
	seen := make(map[string]bool)
	var zoned []func() // wherever the zone is written
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		name := strings.ReplaceAll(key.Value, "_", "-")
		if seen[name] {
			r.bad(key, "%s is there twice", name)
			continue
		}
		seen[name] = true
		if name == "headers" {
			r.headers(s.Spec, val)
			continue
		}
		if name == "tags" && val.Kind == yaml.SequenceNode {
			r.tags(s.Spec, val)
			continue
		}
		if val.Kind != yaml.ScalarNode {
			r.bad(val, "%s: expected one value; quote it if it is JSON or begins with * or @", name)
			continue
		}
		text, err := textOf(val)
		if err != nil {
			r.bad(val, "%s: %w", name, err)
			continue
		}
		if name == "name" {
			s.Name = text
			continue
		}
		s.Paused = s.Paused || name == "paused"
		set := func() { r.field(s.Spec, fields, names, key, name, text) }
		if i := slices.IndexFunc(fields, func(f ScheduleField) bool { return f.Name == name }); i >= 0 && fields[i].zoned {
			zoned = append(zoned, set)
			continue
		}
		set()
	}
	for _, set := range zoned {
		set()
	}
	r.add(n, s)
}

// textOf is the text of one value; of a binary one (!!binary) its bytes.
func textOf(val *yaml.Node) (string, error) {
	switch val.Tag {
	case "!!null":
		return "", nil
	case "!!binary":
		b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(val.Value), ""))
		if err != nil {
			return "", errors.New("!!binary takes base64")
		}
		return string(b), nil
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return val.Value, nil
	}
	return "", fmt.Errorf("the tag %s is not known", val.Tag)
}

func (r *fileReader) field(s *nornv1.ScheduleSpec, fields []ScheduleField, names []string, key *yaml.Node, name, text string) {
	for i := range fields {
		if fields[i].Name == name {
			if err := fields[i].Set(s, text); err != nil {
				r.bad(key, "%w", err)
			}
			return
		}
	}
	r.bad(key, "%w", unknown("key", key.Value, names))
}

// tags reads a list of them: one with a comma in it can be written so alone.
func (r *fileReader) tags(s *nornv1.ScheduleSpec, n *yaml.Node) {
	for _, item := range n.Content {
		text, err := textOf(item)
		if item.Kind != yaml.ScalarNode {
			err = errors.New("expected a list of words")
		}
		if err != nil {
			r.bad(item, "tags: %w", err)
			return
		}
		s.Task.Tags = append(s.Task.Tags, text)
	}
	if err := proto.CheckTags(s.Task.Tags); err != nil {
		r.bad(n, "tags: %w", err)
	}
}

func (r *fileReader) headers(s *nornv1.ScheduleSpec, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "headers: expected `name: value`")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		text, err := textOf(n.Content[i+1])
		if n.Content[i+1].Kind != yaml.ScalarNode {
			err = errors.New("expected `name: value`")
		}
		if err == nil {
			err = SetHeader(s, n.Content[i].Value+"="+text)
		}
		if err != nil {
			r.bad(n.Content[i], "headers: %w", err)
		}
	}
}

// add takes a schedule that was read.
func (r *fileReader) add(n *yaml.Node, s FileSchedule) {
	switch line := r.lines[s.Name]; {
	case s.Name == "":
		r.bad(n, "the schedule has no name")
		return
	case line != 0:
		r.bad(n, "schedule %s is there already, in line %d", s.Name, line)
		return
	case s.Spec.GetCron() == "":
		r.bad(n, "schedule %s has no cron", s.Name)
		return
	case s.Spec.GetTask().GetQueue() == "":
		r.bad(n, "schedule %s has no queue", s.Name)
		return
	}
	r.lines[s.Name] = n.Line
	TidySchedule(s.Spec)
	r.all = append(r.all, s)
}
