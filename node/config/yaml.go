package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// readYAML sets what a file says. Problems name file and line.
func readYAML(file string, b []byte, settings []Setting) (problems []error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return []error{fmt.Errorf("%s: %w", file, err)}
	}
	at := func(n *yaml.Node, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s:%d: "+format, append([]any{file, n.Line}, args...)...))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return []error{fmt.Errorf("%s: more than one YAML document", file)}
	}
	root := doc.Content[0]
	switch {
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null":
		return nil
	case root.Kind != yaml.MappingNode:
		at(root, "expected settings, one `name: value` per line")
		return problems
	}
	var names []string
	for _, s := range settings {
		names = append(names, s.Name)
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, val := root.Content[i], root.Content[i+1]
		n := slices.Index(names, key.Value)
		switch {
		case n < 0:
			at(key, "unknown key %q; the nearest is %q", key.Value, Nearest(key.Value, names))
			continue
		case seen[key.Value] != 0:
			at(key, "%s: set before, in line %d", key.Value, seen[key.Value])
			continue
		case val.Kind != yaml.ScalarNode || val.Tag == "!!null":
			at(key, "%s: expected one value; leave the line out for the default", key.Value)
			continue
		}
		seen[key.Value] = key.Line
		if err := settings[n].Set(val.Value); err != nil {
			at(val, "%s: %w", key.Value, err)
		}
	}
	return problems
}

// YAML is the configuration as a file that [Load] reads.
func (c *Config) YAML() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range c.Settings() {
		val := &yaml.Node{Kind: yaml.ScalarNode, Value: s.String()}
		if s.Type() == "string" || s.Type() == "list" || s.Type() == "networks" {
			val.SetString(s.String())
		}
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: s.Name}, val)
	}
	return yaml.Marshal(root)
}
