package jsonform

import (
	"bytes"
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// JSON writes the value with an indentation of two and a newline at the end.
func (v Value) JSON() []byte { return append(v.AppendJSON(nil, 0), '\n') }

// Line writes the value on one line, with a newline at the end.
func (v Value) Line() []byte { return append(v.appendTo(nil, -1), '\n') }

// AppendJSON appends indented JSON whose first line stands at some depth
// already: what follows is indented by two more spaces per depth.
func (v Value) AppendJSON(dst []byte, depth int) []byte { return v.appendTo(dst, max(depth, 0)) }

// appendTo writes on one line when depth is negative.
func (v Value) appendTo(dst []byte, depth int) []byte {
	inner := depth
	if depth >= 0 {
		inner++
	}
	switch v.kind {
	case boolean, number:
		return append(dst, v.scalar...)
	case text:
		return appendString(dst, v.scalar)
	case array:
		if len(v.items) == 0 {
			return append(dst, "[]"...)
		}
		dst = append(dst, '[')
		for i, item := range v.items {
			dst = appendBreak(dst, i > 0, inner)
			dst = item.appendTo(dst, inner)
		}
		return append(appendBreak(dst, false, depth), ']')
	case object:
		if len(v.fields) == 0 {
			return append(dst, "{}"...)
		}
		dst = append(dst, '{')
		for i, f := range v.fields {
			dst = appendBreak(dst, i > 0, inner)
			dst = append(appendString(dst, f.Name), ':')
			if depth >= 0 {
				dst = append(dst, ' ')
			}
			dst = f.Value.appendTo(dst, inner)
		}
		return append(appendBreak(dst, false, depth), '}')
	}
	return append(dst, "null"...)
}

func appendBreak(dst []byte, comma bool, depth int) []byte {
	if comma {
		dst = append(dst, ',')
	}
	if depth < 0 {
		return dst
	}
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, "  "...)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			return appendHard(dst, s)
		}
	}
	dst = append(append(dst, '"'), s...)
	return append(dst, '"')
}

// appendHard writes strings that need escapes, or that are not ASCII.
func appendHard(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings do not fail
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// YAML writes the same tree as YAML. Strings that YAML would read as something
// else are quoted.
func (v Value) YAML() ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(v.node()); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

func (v Value) node() *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: v.scalar}
	switch v.kind {
	case null:
		n.Tag, n.Value = "!!null", "null"
	case boolean:
		n.Tag = "!!bool"
	case number:
		n.Tag = "!!float"
		if !bytes.ContainsAny([]byte(v.scalar), ".eE") {
			n.Tag = "!!int"
		}
	case text:
		n.SetString(v.scalar)
		if n.Style == yaml.LiteralStyle && !plainLines(v.scalar) {
			n.Style = yaml.DoubleQuotedStyle
		}
	case array:
		n = &yaml.Node{Kind: yaml.SequenceNode}
		if len(v.items) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, item := range v.items {
			n.Content = append(n.Content, item.node())
		}
	case object:
		n = &yaml.Node{Kind: yaml.MappingNode}
		if len(v.fields) == 0 {
			n.Style = yaml.FlowStyle
		}
		for _, f := range v.fields {
			n.Content = append(n.Content, String(f.Name).node(), f.Value.node())
		}
	}
	return n
}

// plainLines tells whether several lines can stand in YAML as they are: the
// library writes leading white space and tabs there in ways it cannot read.
func plainLines(s string) bool {
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasPrefix(line, " ") || strings.ContainsAny(line, "\t\r") {
			return false
		}
	}
	return !strings.HasPrefix(s, "\n")
}
