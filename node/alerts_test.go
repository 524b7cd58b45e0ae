package node

import (
	"os"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAlertsNameMetricsThatAreThere: an alert about what no node exports never
// fires.
func TestAlertsNameMetricsThatAreThere(t *testing.T) {
	b, err := os.ReadFile("../examples/prometheus/schedules.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	families, err := newMetrics().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range families {
		there[f.GetName()] = true
	}
	n := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			for _, name := range regexp.MustCompile(`norn_[a-z_]+`).FindAllString(r.Expr, -1) {
				n++
				if !there[name] {
					t.Errorf("%s: there is no metric %s", r.Alert, name)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("%d metrics are named", n)
	}
}
