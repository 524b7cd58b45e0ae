package node

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/norn-dev/norn/node/queuestats"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"
)

// exported are the names of the metrics of a node.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	n := start(t, testConfig(t), Options{})
	defer stop(t, n)
	ready(t, n)
	there := map[string]bool{
		// Of the process, with the certificates that it shows, and of the HTTP port.
		"norn_tls_certificate_expires_timestamp_seconds": true, "norn_http_connections": true,
		// Of the process, where backups of tasks are asked for.
		"norn_tasks_backup_timestamp_seconds": true, "norn_tasks_backup_interval_seconds": true,
	}
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		queuestats.NewCollector(n.ctx, n.decided, n.calls).Describe(described)
	}()
	for d := range described { // of queues that there are not yet
		there[regexp.MustCompile(`fqName: "([a-z_]+)"`).FindStringSubmatch(d.String())[1]] = true
	}
	families, err := n.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		there[f.GetName()] = true
	}
	return there
}

var metricName = regexp.MustCompile(`norn_[a-z_]+`)

// named complains of metrics in an expression that are not there, and counts them.
func named(t *testing.T, there map[string]bool, where, expr string) int {
	t.Helper()
	all := metricName.FindAllString(expr, -1)
	for _, name := range all {
		if family := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count"); !there[name] && !there[family] {
			t.Errorf("%s: there is no metric %s", where, name)
		}
	}
	for _, pair := range []string{"()", "[]", "{}"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			t.Errorf("%s: %s has unequal %s", where, expr, pair)
		}
	}
	return len(all)
}

// TestAlertsNameMetricsThatAreThere: an alert about what no node exports never
// fires, and a panel about it stays empty.
func TestAlertsNameMetricsThatAreThere(t *testing.T) {
	there, n, seen := exported(t), 0, map[string]bool{}
	files, err := filepath.Glob("../examples/prometheus/*.rules.yml")
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	manual, err := os.ReadFile("../docs/how-to/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr string
					Annotations struct{ Summary string }
				}
			}
		}
		if err := yaml.Unmarshal(b, &file); err != nil {
			t.Fatal(err)
		}
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				n += named(t, there, r.Alert, r.Expr)
				if seen[r.Alert] || r.Annotations.Summary == "" {
					t.Errorf("%s is there twice, or says nothing", r.Alert)
				}
				seen[r.Alert] = true
				if !strings.Contains(path, "schedules") && !strings.Contains(string(manual), "*"+r.Alert+"*") {
					t.Errorf("docs/how-to/operating.md does not say what to do about %s", r.Alert)
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("%d metrics are named", n)
	}
}

// TestDashboardNamesMetricsThatAreThere is the same for the board of Grafana.
func TestDashboardNamesMetricsThatAreThere(t *testing.T) {
	b, err := os.ReadFile("../examples/grafana/norn.json")
	if err != nil {
		t.Fatal(err)
	}
	type panel struct {
		ID      int
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ Expr string }
	}
	var board struct {
		Title      string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	there, n, ids := exported(t), 0, map[int]bool{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			n += named(t, there, p.Title, target.Expr)
		}
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d (%s) is there twice, or does not fit", p.ID, p.Title)
		}
		ids[p.ID] = true
	}
	if n < 20 || board.Title == "" {
		t.Errorf("%d metrics are named", n)
	}
	for _, v := range board.Templating.List {
		named(t, there, "variable "+v.Name, v.Query)
		if !strings.Contains(string(b), "$"+v.Name) && !strings.Contains(string(b), "${"+v.Name+"}") {
			t.Errorf("no panel has the variable %s", v.Name)
		}
	}
	if len(board.Templating.List) < 3 {
		t.Error("nodes and queues cannot be chosen")
	}
}

// TestAlertsFire has promtool, where there is one, try the alarms on made-up series.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("there is no promtool (Debian's package prometheus has it)")
	}
	c := exec.CommandContext(t.Context(), promtool, "test", "rules", "norn.rules.test.yml")
	c.Dir = "../examples/prometheus"
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
