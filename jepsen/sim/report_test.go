package sim

import (
	"bytes"
	"strings"
	"testing"

	"github.com/norn-dev/norn/jepsen/check"
)

// Whoever reads of a violation is told what runs that seed again, and not another run
// that has nothing to do with it.
func TestAReportSaysWhatRunsItAgain(t *testing.T) {
	for _, c := range []struct {
		m    Many
		want string
	}{
		{Many{}, "make sim SEED=7 SEEDS=1 SIMARGS='-nodes=1 -events=0'"},
		{Many{Cluster: true, Size: 5, Fierce: true}, "make sim SEED=7 SEEDS=1 SIMARGS='-nodes=many -size=5 -fierce -events=0'"},
		{Many{Cluster: true, Forget: true}, "make sim SEED=7 SEEDS=1 SIMARGS='-nodes=many -forget -events=0'"},
		{Many{Schedules: true}, "-run '^TestCron$' -crons 1 -seed 7"},
		{Many{Cluster: true, Cuts: true}, "-run '^TestCutsKeepNoTaskWaiting$' -cuts 7"},
	} {
		c.m.Stop = func() bool { return true } // a thousand steps are enough
		var text bytes.Buffer
		r := c.m.One(7)
		r.Violation = &check.Violation{}
		r.Report(&text, 1)
		if !strings.Contains(text.String(), c.want) {
			t.Errorf("the report says %q, want %q", text.String(), c.want)
		}
	}
}
