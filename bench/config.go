package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/client"
)

// Config of a run.
type Config struct {
	Scenario  string        // one of Scenarios
	Tasks     int           // tasks to measure; 0: the scenario's default
	Payload   int           // bytes per task
	Producers int           // goroutines that enqueue
	Workers   int           // goroutines that claim and complete
	Batch     int           // tasks per request
	Rate      int           // tasks per second (latency)
	Duration  time.Duration // length (latency)
	Queue     string        // queue to use; "": a new one per run
}

// Scenarios names what can be run, and what it measures.
func Scenarios() map[string]string {
	return map[string]string{
		"enqueue": "tasks enqueued per second",
		"claim":   "tasks claimed and completed per second, from a queue filled before",
		"cycle":   "tasks enqueued, claimed and completed per second, all at once",
		"latency": "time from enqueue to claim at a fixed rate",
		"backlog": "claim rate with many tasks waiting, as a ratio of the rate with 10,000",
	}
}

// Default gives the defaults of interface.md.
func Default() Config {
	return Config{Scenario: "cycle", Payload: 100, Producers: 64, Workers: 16, Batch: 1, Rate: 2000, Duration: 10 * time.Second}
}

// ErrConfig is returned when a run cannot be done as asked.
var ErrConfig = errors.New("bench: wrong settings")

// complete checks a configuration and fills in defaults.
func (c *Config) complete() error {
	if _, ok := Scenarios()[c.Scenario]; !ok {
		if c.Scenario == "failover" {
			return fmt.Errorf("%w: the failover scenario needs a cluster of several nodes, which is not built yet", ErrConfig)
		}
		return fmt.Errorf("%w: no scenario %q", ErrConfig, c.Scenario)
	}
	if c.Tasks == 0 {
		c.Tasks = map[string]int{"backlog": 1_000_000}[c.Scenario]
		if c.Tasks == 0 {
			c.Tasks = 100_000
		}
	}
	for name, n := range map[string]int{"tasks": c.Tasks, "producers": c.Producers, "workers": c.Workers, "batch": c.Batch, "rate": c.Rate} {
		if n < 1 {
			return fmt.Errorf("%w: %s must be at least 1", ErrConfig, name)
		}
	}
	if c.Batch > 10_000 || c.Payload < 0 || c.Payload > 16<<20 || c.Duration <= 0 {
		return fmt.Errorf("%w: batch is at most 10000, payload at most 16 MiB, the duration above 0", ErrConfig)
	}
	if c.Queue == "" {
		c.Queue = fmt.Sprintf("bench-%s-%d", c.Scenario, time.Now().UnixNano())
	}
	return nil
}

// Progress hears how far a stage is; total is 0 where it is not known.
type Progress func(stage string, done, total int)

// run is a scenario under way.
type run struct {
	Config
	c        *client.Client
	progress Progress
	report   *Report
}
