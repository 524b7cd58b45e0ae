package config

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// EnvPrefix begins the variables of the settings: eta is NORN_SERVER_ETA.
const EnvPrefix = "NORN_SERVER_"

// Register adds a flag per setting to a flag set; the flags' defaults are the
// values that c has now. Parsing the flags changes c.
func (c *Config) Register(flags *pflag.FlagSet) {
	for _, s := range c.Settings() {
		flags.Var(s.Value, s.Name, s.Help)
	}
}

// Load builds a configuration: the defaults, the file (when path is not
// empty), the environment, the flags that were set, each over the one before.
// It reports everything that is wrong, at once.
func Load(path string, lookup func(string) (string, bool), flags *pflag.FlagSet) (*Config, error) {
	c := Default()
	var problems []error
	if path != "" {
		problems = append(problems, c.readFile(path))
	}
	for _, s := range c.Settings() {
		name := EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
		if text, ok := lookup(name); ok {
			if err := s.Value.Set(text); err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			}
		}
		if flags == nil {
			continue
		}
		if f := flags.Lookup(s.Name); f != nil && f.Changed {
			if err := s.Value.Set(f.Value.String()); err != nil {
				problems = append(problems, fmt.Errorf("--%s: %w", s.Name, err))
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &c, c.Validate()
}

func (c *Config) readFile(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	return c.parse(path, b)
}

// parse sets what a YAML document says.
func (c *Config) parse(path string, b []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("config file %s: %w", path, err)
	}
	if len(doc.Content) == 0 {
		return nil // nothing but comments
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("config file %s: line %d: a list of `name: value` is needed", path, root.Line)
	}
	settings := make(map[string]Setting)
	for _, s := range c.Settings() {
		settings[s.Name] = s
	}
	var problems []error
	seen := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("config file %s: line %d", path, key.Line)
		s, ok := settings[key.Value]
		switch {
		case !ok:
			problems = append(problems, fmt.Errorf("%s: unknown setting %q; did you mean %q?", at, key.Value, nearest(key.Value, settings)))
		case seen[key.Value] != 0:
			problems = append(problems, fmt.Errorf("%s: %s was set on line %d already", at, key.Value, seen[key.Value]))
		case value.Kind != yaml.ScalarNode:
			problems = append(problems, fmt.Errorf("%s: %s needs a single value", at, key.Value))
		default:
			if err := s.Value.Set(value.Value); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s: %w", at, key.Value, err))
			}
		}
		seen[key.Value] = key.Line
	}
	return errors.Join(problems...)
}

// nearest finds the setting whose name takes the fewest edits.
func nearest(name string, settings map[string]Setting) string {
	best, least := "", -1
	// Any order: of equally near ones the first by name is taken.
	for s := range settings {
		if d := edits(name, s); least < 0 || d < least || d == least && s < best {
			best, least = s, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two short strings.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, last+cost)
		}
	}
	return row[len(b)]
}

// YAML writes the configuration as a file that [Load] reads, each setting with
// its help as a comment. With commented set the settings are commented out.
func (c *Config) YAML(commented bool) string {
	var b strings.Builder
	for i, s := range c.Settings() {
		if i > 0 {
			b.WriteString("\n")
		}
		mark := ""
		if commented {
			mark = "# "
		}
		value := s.Value.String()
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(&b, "# %s\n%s%s: %s\n", s.Help, mark, s.Name, value)
	}
	return b.String()
}
