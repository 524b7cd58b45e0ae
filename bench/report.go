package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Figure is one number of a report.
type Figure struct {
	Name  string
	Value float64
	Unit  string // "" for a ratio
}

// Report is what a run found, and where.
type Report struct {
	Scenario       string
	Config         Config // as it was run, with all defaults filled in
	Figures        []Figure
	Rounds         []Round // of a failover run, in order
	Tasks          int     // enqueued, or claimed and completed, while measuring
	Errors         int     // any makes the run invalid
	FirstError     string  // "" without any
	Duplicates     int     // tasks claimed more than once
	Lost           int     // tasks acknowledged that are neither claimed nor there
	Gone           int     // of those: completed, and not there any more
	Server         string  // version of the server
	GoVersion      string  // of the load generator
	Platform       string  // of the load generator: system/architecture
	Cores          int     // of the load generator's machine
	FsyncBeforeAck bool    // whether an acknowledgement means "on disk"
}

// ErrInvalid is returned by [Report.Valid] when the figures count for nothing.
var ErrInvalid = errors.New("bench: the run is invalid")

// Valid says why the figures count for nothing, or nil. The error is an
// ErrInvalid.
func (r *Report) Valid() error {
	if r.Errors == 0 && r.Duplicates == 0 && r.Lost == 0 {
		return nil
	}
	err := fmt.Errorf("%w: %d errors, %d tasks claimed twice, %d lost", ErrInvalid, r.Errors, r.Duplicates, r.Lost)
	if r.Gone > 0 {
		err = fmt.Errorf("%w; of the lost %d were completed and are gone: retention has to be longer than the run", err, r.Gone)
	}
	if r.FirstError != "" {
		err = fmt.Errorf("%w; the first error: %s", err, r.FirstError)
	}
	return err
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

// latencies adds what a stage has recorded under a name.
func (r *Report) latencies(name string, s *stage) {
	h := s.calls[name]
	if h == nil {
		return
	}
	for _, q := range []float64{50, 90, 99} {
		r.add(fmt.Sprintf("%s_p%g", name, q), float64(h.ValueAtQuantile(q))/1000, "ms")
	}
	r.add(name+"_max", float64(h.Max())/1000, "ms")
}

// relate adds the machine's limits, and the run's own figures as multiples of
// them.
func (r *Report) relate(l *Limits) {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	own := r.Figures
	r.add("limit_fdatasync_p50", ms(l.Sync.P50), "ms")
	r.add("limit_fdatasync_p99", ms(l.Sync.P99), "ms")
	r.add("limit_fdatasync_rate", l.Sync.Rate, "1/s")
	r.add("limit_round_trip_p50", ms(l.RoundTrip.P50), "ms")
	r.add("limit_round_trip_p99", ms(l.RoundTrip.P99), "ms")
	r.add("limit_round_trip_rate", l.RoundTrip.Rate, "1/s")
	for _, f := range own {
		switch {
		case f.Unit == "tasks/s" && r.Scenario != "latency": // there the rate was given
			r.add(f.Name+"_per_fdatasync", f.Value/l.Sync.Rate, "")
			r.add(f.Name+"_per_round_trip", f.Value/l.RoundTrip.Rate, "")
		case f.Name == "enqueue_to_claim_p50":
			r.add(f.Name+"_in_fdatasyncs", f.Value/ms(l.Sync.P50), "")
		case f.Name == "enqueue_to_claim_p99":
			r.add(f.Name+"_in_fdatasyncs", f.Value/ms(l.Sync.P99), "")
		}
	}
}

func newReport(c Config, server string) *Report {
	return &Report{
		Scenario: c.Scenario, Config: c, Server: server, GoVersion: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), FsyncBeforeAck: true,
	}
}
