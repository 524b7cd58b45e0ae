package bench

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Config of a run.
type Config struct {
	Scenario  string        // one of Scenarios
	Tasks     int           // tasks to measure; 0: the scenario's default
	Clients   int           // clients of producers, and as many of workers, in turns at the nodes; 0: one for each producer and worker
	Payload   int           // bytes per task, at least 8: they carry its number
	Producers int           // goroutines that enqueue; 0: the scenario's default
	Workers   int           // goroutines that claim and complete; 0: the scenario's default
	Batch     int           // tasks per request
	Prefetch  int           // tasks per claim request; 0: as many as Batch
	Alternate bool          // a worker completes and claims in two requests, one after the other; else in one
	Rate      int           // tasks per second (latency, failover); 0: the scenario's default
	Duration  time.Duration // length (latency)
	Queue     string        // queue to use, by nobody else; "": a new one per run
	Settle    time.Duration // pause between filling and claiming, so that the store has merged what filling left (claim, backlog; workers: after the last has its tasks, 0: 5 s)
	Kills     int           // how often a node is killed (failover)
	Freezes   int           // how often one is stopped (failover)
	Cuts      int           // how often one is cut off from the others (failover)
	Nodes     Nodes         // to be broken (failover); nil otherwise
	Limits    string        // also measure the machine, with a file in this directory; "": no
	// Connections of the sessions (workers), shared by all of them; 0: one for each.
	Connections int
	// HTTP are the addresses (host:port) of all servers' HTTP, which are asked for the
	// processor time they have used, and for what costs it.
	HTTP []string
	// HTTPGuessed says that HTTP is a guess: without an answer the figure is left out.
	HTTPGuessed bool
}

// Scenarios names what can be run, and what it measures.
func Scenarios() map[string]string {
	return map[string]string{
		"enqueue":  "tasks enqueued per second",
		"claim":    "tasks claimed and completed per second, from a queue filled before",
		"cycle":    "tasks enqueued, claimed and completed per second, all at once",
		"latency":  "time from enqueue to claim at a fixed rate",
		"failover": "how long enqueues and claims stop when a node is killed, and when one is frozen",
		"workers":  "processor time of the servers per session of a worker that holds --batch tasks and does nothing",
		"backlog":  "claim rate with many tasks waiting, as a ratio of the rate with 10,000",
	}
}

// Default gives the defaults of interface.md.
func Default() Config {
	return Config{Scenario: "cycle", Payload: 100, Batch: 1, Duration: 10 * time.Second, Kills: 20, Freezes: 5}
}

// Workers is how many workers a scenario has unless told otherwise.
func Workers(scenario string) int {
	switch scenario {
	case "latency":
		return 8
	case "failover":
		return 12
	case "workers":
		return 1000
	}
	return 16
}

// Producers is how many producers a scenario has unless told otherwise.
func Producers(scenario string) int {
	if scenario == "failover" {
		return 12
	}
	return 64
}

// Rate is how many tasks a second a scenario enqueues unless told otherwise.
func Rate(scenario string) int {
	if scenario == "failover" {
		return failoverRate
	}
	return 2000
}

// ErrConfig is returned when a run cannot be done as asked.
var ErrConfig = errors.New("bench: wrong settings")

// Check says what is wrong with the settings, as Run would.
func (c Config) Check() error { return c.complete() }

// complete checks a configuration and fills in defaults.
func (c *Config) complete() error {
	if _, ok := Scenarios()[c.Scenario]; !ok {
		return fmt.Errorf("%w: no scenario %q", ErrConfig, c.Scenario)
	}
	if c.Tasks == 0 {
		c.Tasks = 100_000
		if c.Scenario == "backlog" {
			c.Tasks = 1_000_000
		}
	}
	if c.Scenario == "failover" {
		if c.Nodes == nil {
			return fmt.Errorf("%w: the failover scenario needs nodes to break", ErrConfig)
		}
		c.Tasks = failoverTasks
	}
	if c.Producers == 0 {
		c.Producers = Producers(c.Scenario)
	}
	if c.Rate == 0 {
		c.Rate = Rate(c.Scenario)
	}
	if c.Workers == 0 {
		c.Workers = Workers(c.Scenario)
	}
	if c.Scenario == "workers" {
		c.Tasks = c.Workers * c.Batch
		if c.Settle == 0 {
			c.Settle = 5 * time.Second // a period, in which what came at once spreads
		}
	}
	if c.Prefetch == 0 {
		c.Prefetch = c.Batch
	}
	for _, s := range []struct {
		name           string
		n, least, most int
	}{
		{"tasks", c.Tasks, 1, math.MaxUint32}, {"clients", c.Clients, 0, 1024}, {"payload", c.Payload, header, 16 << 20}, {"producers", c.Producers, 1, 1 << 20},
		{"workers", c.Workers, 1, 1 << 20}, {"batch", c.Batch, 1, 10_000}, {"prefetch", c.Prefetch, 1, 10_000}, {"rate", c.Rate, 1, 10_000_000},
		{"kills", c.Kills, 0, 10_000}, {"freezes", c.Freezes, 0, 10_000}, {"cuts", c.Cuts, 0, 10_000},
		{"connections", c.Connections, 0, 1 << 20},
	} {
		if s.n < s.least || s.n > s.most {
			return fmt.Errorf("%w: %s must be at least %d and at most %d", ErrConfig, s.name, s.least, s.most)
		}
	}
	if c.Duration <= 0 || c.Duration > maxDuration {
		return fmt.Errorf("%w: duration must be over 0 and at most %v", ErrConfig, maxDuration)
	}
	if c.Settle < 0 {
		return fmt.Errorf("%w: settle must not be negative", ErrConfig)
	}
	if c.Scenario == "latency" {
		switch c.Tasks = int(c.Duration.Seconds() * float64(c.Rate)); {
		case c.Tasks < 1:
			return fmt.Errorf("%w: not one task in %v at %d a second", ErrConfig, c.Duration, c.Rate)
		case c.Tasks > math.MaxUint32:
			return fmt.Errorf("%w: over %d tasks in %v at %d a second", ErrConfig, uint32(math.MaxUint32), c.Duration, c.Rate)
		}
	}
	if c.Queue == "" {
		c.Queue = fmt.Sprintf("bench-%s-%d", c.Scenario, time.Now().UnixNano())
	}
	return nil
}
