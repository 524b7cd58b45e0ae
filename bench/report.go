package bench

import (
	"fmt"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Figure is one number of a report.
type Figure struct {
	Name  string
	Value float64
	Unit  string
}

// Report is what a run found.
type Report struct {
	Scenario      string
	Server        string // version of the server
	GoVersion     string // of the load generator
	Cores         int
	Config        Config
	Figures       []Figure
	Errors        int // unexpected errors: any makes the run invalid
	FirstError    string
	Tasks         int // measured
	Duplicates    int // tasks claimed more than once
	Lost          int // tasks never claimed that should have been
	FsyncEachAck  bool
	ClientsShared bool // load generator and server share the machine: not known, always said
}

// Valid says why the figures count for nothing, or nil.
func (r *Report) Valid() error {
	if r.Errors > 0 || r.Duplicates > 0 || r.Lost > 0 {
		return fmt.Errorf("bench: the run is invalid: %d errors (first: %s), %d tasks claimed twice, %d lost", r.Errors, r.FirstError, r.Duplicates, r.Lost)
	}
	return nil
}

func (r *Report) add(name string, value float64, unit string) {
	r.Figures = append(r.Figures, Figure{name, value, unit})
}

// Get gives a figure by name.
func (r *Report) Get(name string) (float64, bool) {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value, true
		}
	}
	return 0, false
}

func (r *Report) fail(err error) {
	if r.Errors == 0 {
		r.FirstError = err.Error()
	}
	r.Errors++
}

// newHistogram holds 1 µs to 1 min with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

func (r *Report) latencies(name string, h *hdrhistogram.Histogram) {
	for _, q := range []float64{50, 90, 99} {
		r.add(fmt.Sprintf("%s_p%g", name, q), float64(h.ValueAtQuantile(q))/1000, "ms")
	}
	r.add(name+"_max", float64(h.Max())/1000, "ms")
}

func newReport(c Config, server string) *Report {
	return &Report{Scenario: c.Scenario, Server: server, GoVersion: runtime.Version(), Cores: runtime.NumCPU(), Config: c, FsyncEachAck: true, ClientsShared: true}
}
