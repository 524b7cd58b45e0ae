package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Sources are where values come from, strongest first.
type Sources struct {
	// Flags are the flags that were given, by name without the dashes.
	Flags map[string]string
	// Environ is the environment as of os.Environ.
	Environ []string
	// File is the path of a YAML file; "" takes NORN_SERVER_CONFIG, and none
	// when that is empty too.
	File string
}

// Load gives the configuration that the sources amount to, completed and
// validated. The error joins one error per problem; each is one line.
func Load(src Sources) (*Config, error) {
	c := Default()
	settings := c.Settings()
	var problems []error
	env := environment(src.Environ)
	file := src.File
	if file == "" {
		file = env[envPrefix+"CONFIG"]
	}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("configuration file: %w", err)
		}
		problems = append(problems, readYAML(file, b, settings)...)
	}
	for _, s := range settings {
		if text, ok := env[s.Env()]; ok && text != "" {
			if err := s.Set(text); err != nil {
				problems = append(problems, fmt.Errorf("environment variable %s: %w", s.Env(), err))
			}
		}
	}
	for _, s := range settings {
		if text, ok := src.Flags[s.Name]; ok {
			if err := s.Set(text); err != nil {
				problems = append(problems, fmt.Errorf("flag --%s: %w", s.Name, err))
			}
		}
	}
	c.Complete()
	if err := c.Validate(); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return c, nil
}

// environment gives the variables with our prefix.
func environment(environ []string) map[string]string {
	env := make(map[string]string)
	for _, v := range environ {
		if name, text, ok := strings.Cut(v, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = text
		}
	}
	return env
}

// UnknownEnv names the variables with the prefix NORN_SERVER_ that are no
// setting, each with the nearest one that is. They are worth a warning and no
// more: Kubernetes makes such variables for a service called norn-server.
func UnknownEnv(environ []string) []string {
	known := []string{envPrefix + "CONFIG"}
	for _, s := range Default().Settings() {
		known = append(known, s.Env())
	}
	var out []string
	for name := range environment(environ) {
		if !slices.Contains(known, name) {
			out = append(out, fmt.Sprintf("%s (nearest: %s)", name, Nearest(name, known)))
		}
	}
	slices.Sort(out)
	return out
}

// Nearest is the known name with the fewest differing letters; case, and _ for -,
// do not count. "" when none is known.
func Nearest(name string, known []string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	best, least := "", 0
	for _, k := range known {
		d := distance(name, strings.ReplaceAll(strings.ToLower(k), "_", "-"))
		if best == "" || d < least {
			best, least = k, d
		}
	}
	return best
}

// Alike tells whether one name may be a slip of the other: one begins like the other, or
// at most a third of the letters differ.
func Alike(a, b string) bool {
	return strings.HasPrefix(b, a) || strings.HasPrefix(a, b) || 3*distance(a, b) <= max(len(a), len(b))
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
