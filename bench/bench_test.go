package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster starts a node in this process.
func cluster(t testing.TB) Dial {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.PeerListen, cfg.DiskReserve, cfg.DiskStop = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", 2<<20, 1<<20
	n, err := node.Start(cfg, node.Options{Version: "test", Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context, _ int) (*client.Client, error) {
		return client.Dial(ctx, []string{n.Addr().String()})
	}
}

// small is a configuration that takes no time.
func small(scenario string) Config {
	cfg := Default()
	cfg.Scenario, cfg.Tasks, cfg.Producers, cfg.Rate, cfg.Duration = scenario, 300, 8, 400, 500*time.Millisecond
	return cfg
}

func TestScenariosAreValidOnAHealthyNode(t *testing.T) {
	dial := cluster(t)
	for name, figures := range map[string][]string{
		"enqueue": {"enqueue_rate", "enqueue_p50", "enqueue_max"},
		"claim":   {"claim_complete_rate", "claim_p99", "complete_p99"},
		"cycle":   {"cycle_rate", "enqueue_rate", "enqueue_p90", "claim_p90", "complete_p90"},
		"latency": {"rate", "enqueue_to_claim_p50", "enqueue_to_claim_p99", "enqueue_to_claim_max", "sent_late_p99"},
		"backlog": {"claim_complete_rate_short", "claim_complete_rate_long", "ratio"},
	} {
		for _, batch := range []int{1, 7} {
			cfg := small(name)
			cfg.Batch, cfg.Prefetch, cfg.Clients = batch, 3*batch%8, batch%4
			r, err := Run(t.Context(), dial, cfg, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := r.Valid(); err != nil {
				t.Errorf("%s, batch %d: %v", name, batch, err)
			}
			want := map[string]int{"latency": 200, "backlog": 6 * 300}[name]
			if want == 0 {
				want = 300
			}
			if r.Tasks != want || r.Server != "test" || r.Cores < 1 || !r.FsyncBeforeAck {
				t.Errorf("%s, batch %d: %+v, want %d tasks", name, batch, r, want)
			}
			for _, figure := range figures {
				if v, ok := r.Get(figure); !ok || v <= 0 {
					t.Errorf("%s, batch %d: figure %s is %v, %v", name, batch, figure, v, ok)
				}
			}
		}
	}
}

// TestIdleWorkersKeepTheirClaims: workers come, hold what they are to hold, complete it
// and leave; what the servers used is told where they are asked.
func TestIdleWorkersKeepTheirClaims(t *testing.T) {
	dial := cluster(t)
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# HELP\nprocess_cpu_seconds_total %d\nnorn_store_syncs_total 1e1\n", asked.Add(1))
	}))
	defer web.Close()
	cfg := small("workers")
	cfg.Workers, cfg.Batch, cfg.Connections, cfg.Settle = 7, 3, 2, time.Millisecond
	cfg.HTTP = []string{strings.TrimPrefix(web.URL, "http://")}
	r, err := Run(t.Context(), dial, cfg, nil)
	if err != nil || r.Valid() != nil {
		t.Fatalf("%v, %v", err, r.Valid())
	}
	for figure, want := range map[string]float64{"sessions": 7, "claims_held": 21} {
		if v, ok := r.Get(figure); !ok || v != want {
			t.Errorf("%s is %v, %v", figure, v, ok)
		}
	}
	if v, ok := r.Get("servers_processor"); !ok || v <= 0 || v > 2 || asked.Load() != 2 || r.Tasks != 21 {
		t.Errorf("%v cores, %v, asked %d times, %d tasks", v, ok, asked.Load(), r.Tasks)
	}
	cfg.HTTP = []string{"127.0.0.1:1"} // nobody is there
	if r, err = Run(t.Context(), dial, cfg, nil); err != nil || r.Valid() == nil {
		t.Errorf("%v: valid without the figure that was asked for", err)
	}
	cfg.HTTPGuessed, cfg.Queue = true, ""
	if r, err = Run(t.Context(), dial, cfg, nil); err != nil || r.Valid() != nil {
		t.Fatalf("%v, %v", err, r.Valid())
	}
	if _, ok := r.Get("servers_processor"); ok {
		t.Error("a figure that nobody has told")
	}
}

func TestUsageOfServers(t *testing.T) {
	u, err := parseUsage(strings.NewReader("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.5\nnorn_store_syncs_total 1.5e+03\n"))
	if err != nil || u.seconds != 12.5 || u.syncs != 1500 {
		t.Errorf("%+v, %v", u, err)
	}
	for _, bad := range []string{"", "norn_store_syncs_total 1\n", "process_cpu_seconds_total much\n"} {
		if _, err := parseUsage(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Two runs in one queue: the second must not take the first one's tasks for its
// own.
func TestAQueueOfOthersMakesTheRunInvalid(t *testing.T) {
	dial := cluster(t)
	cfg := small("enqueue")
	cfg.Queue = "shared"
	r, err := Run(t.Context(), dial, cfg, nil)
	if err != nil || r.Valid() != nil {
		t.Fatalf("%v, %v", err, r.Valid())
	}
	again, err := Run(t.Context(), dial, cfg, nil) // nobody claims: both are right
	if err != nil || again.Valid() != nil {
		t.Fatalf("%v, %v", err, again.Valid())
	}
	cfg.Scenario = "claim"
	r, err = Run(t.Context(), dial, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Valid(); !errors.Is(err, ErrInvalid) || r.FirstError != ErrForeign.Error() {
		t.Fatalf("%v, want ErrInvalid with %q first", err, ErrForeign)
	}
}

// A node that goes away in the middle ends the run soon.
// TestATaskThatIsClaimedTwiceIsCounted: not only as an error.
func TestATaskThatIsClaimedTwiceIsCounted(t *testing.T) {
	dial := cluster(t)
	cfg := small("claim")
	cfg.Queue, cfg.Settle = "twice", time.Millisecond
	r, err := Run(t.Context(), dial, cfg, func(stage string, _, _ int) {
		if !strings.HasPrefix(stage, "pause") { // the queue is full, and nobody claims
			return
		}
		c, err := dial(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		claims, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{cfg.Queue}, Max: 1, Wait: wait})
		if err != nil || len(claims) != 1 {
			t.Fatalf("%v, %v", claims, err)
		}
		if _, err := c.Enqueue(t.Context(), client.Task{Queue: cfg.Queue, Priority: 1, Payload: claims[0].Grant.GetTask().GetPayload()}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Release(t.Context(), claims[0].Ref()); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil || r.Duplicates != 1 || r.Errors == 0 || !errors.Is(r.Valid(), ErrInvalid) {
		t.Fatalf("%v: %+v, want one that was claimed twice", err, r)
	}
}

func TestAnErrorEndsTheRun(t *testing.T) {
	dial := cluster(t)
	var clients []*client.Client
	cfg := small("cycle")
	cfg.Tasks, cfg.Batch = 1_000_000, 100
	r, err := Run(t.Context(), func(ctx context.Context, n int) (*client.Client, error) {
		c, err := dial(ctx, n)
		clients = append(clients, c)
		return c, err
	}, cfg, func(stage string, done, _ int) {
		if stage == "cycle" && done > 100 {
			_ = clients[1].Close() // the workers'
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Valid(); !errors.Is(err, ErrInvalid) || r.Errors == 0 || r.FirstError == "" {
		t.Fatalf("%v, %+v, want ErrInvalid with an error", err, r)
	}
}

func TestStoppingARunIsNoReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := small("cycle")
	cfg.Tasks, cfg.Batch = 1_000_000, 100
	r, err := Run(ctx, cluster(t), cfg, func(stage string, done, _ int) {
		if stage == "cycle" && done > 100 {
			cancel()
		}
	})
	if r != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v, %v, want context.Canceled", r, err)
	}
}

// TestSettleLiesBetweenFillingAndClaiming: and counts for no rate.
func TestSettleLiesBetweenFillingAndClaiming(t *testing.T) {
	cfg := small("claim")
	cfg.Settle = 300 * time.Millisecond
	began := time.Now()
	r, err := Run(t.Context(), cluster(t), cfg, nil)
	if err != nil || r.Valid() != nil {
		t.Fatalf("%v, %v", err, r.Valid())
	}
	rate, _ := r.Get("claim_complete_rate")
	if took := time.Since(began); took < cfg.Settle || float64(cfg.Tasks)/rate > (took-cfg.Settle).Seconds() {
		t.Fatalf("%d tasks at %.0f/s in %v", cfg.Tasks, rate, took)
	}
}

// TestASchedulesTasksAreCounted: there is memory for each of them, and a number of 32 bits.
func TestASchedulesTasksAreCounted(t *testing.T) {
	cfg := Default()
	cfg.Scenario, cfg.Duration = "latency", 20*time.Hour
	for rate, refused := range map[int]bool{59_652: false, 59_653: true, 10_000_000: true} {
		if cfg.Rate = rate; errors.Is(cfg.Check(), ErrConfig) != refused {
			t.Errorf("%d a second: %v", rate, cfg.Check())
		}
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Scenario = "nothing" },
		func(c *Config) { c.Scenario = "failover" },
		func(c *Config) { c.Batch = 10_001 },
		func(c *Config) { c.Prefetch = -1 },
		func(c *Config) { c.Clients = -1 },
		func(c *Config) { c.Payload = 7 },
		func(c *Config) { c.Producers = -1 },
		func(c *Config) { c.Workers = -1 },
		func(c *Config) { c.Duration = 0 },
		func(c *Config) { c.Duration = maxDuration + 1 },
		func(c *Config) { c.Settle = -1 },
		func(c *Config) { c.Scenario, c.Duration, c.Rate = "latency", time.Millisecond, 1 },
	} {
		cfg := Default()
		change(&cfg)
		if _, err := Run(t.Context(), nil, cfg, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", cfg, err)
		}
	}
}

func TestLimitsStandBesideTheFigures(t *testing.T) {
	dial := cluster(t)
	cfg := small("claim")
	cfg.Limits = t.TempDir()
	r, err := Run(t.Context(), dial, cfg, nil)
	if err != nil || r.Valid() != nil {
		t.Fatalf("%v, %v", err, r.Valid())
	}
	for _, name := range []string{"limit_fdatasync_p50", "limit_round_trip_rate", "claim_complete_rate_per_fdatasync"} {
		if v, ok := r.Get(name); !ok || v <= 0 {
			t.Errorf("figure %s is %v, %v", name, v, ok)
		}
	}
	cfg.Limits = filepath.Join(t.TempDir(), "nowhere")
	if _, err := Run(t.Context(), dial, cfg, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that the directory is not there", err)
	}
}

// BenchmarkScenarios starts a node in this process: what is left of the figures
// without the cost of a second process.
func BenchmarkScenarios(b *testing.B) {
	for _, scenario := range []string{"enqueue", "claim", "cycle"} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s=%d", scenario, batch), func(b *testing.B) {
				cfg := Default()
				cfg.Scenario, cfg.Batch = scenario, batch
				benchmark(b, cfg)
			})
		}
	}
	b.Run("latency=2000", func(b *testing.B) {
		cfg := Default()
		cfg.Scenario, cfg.Duration = "latency", time.Duration(max(b.N, 1000))*time.Second/2000
		benchmark(b, cfg)
	})
}

func benchmark(b *testing.B, cfg Config) {
	cfg.Tasks = max(b.N, cfg.Batch)
	dial := cluster(b)
	b.ResetTimer()
	r, err := Run(b.Context(), dial, cfg, nil)
	b.StopTimer()
	if err := errors.Join(err, r.Valid()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op") // it would count filling and warm-up
	shown := []string{"enqueue_rate", "claim_complete_rate", "cycle_rate", "enqueue_to_claim_p50", "enqueue_to_claim_p99", "sent_late_p99"}
	for _, f := range r.Figures {
		if slices.Contains(shown, f.Name) {
			b.ReportMetric(f.Value, f.Name)
		}
	}
}

// BenchmarkLimits measures what the machine allows (numbers.md).
func BenchmarkLimits(b *testing.B) {
	for b.Loop() {
		l, err := MeasureLimits(b.Context(), b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(l.Sync.P50.Microseconds()), "µs/fdatasync")
		b.ReportMetric(l.Sync.Rate, "fdatasyncs/s")
		b.ReportMetric(float64(l.RoundTrip.P50.Microseconds()), "µs/trip")
		b.ReportMetric(l.RoundTrip.Rate, "trips/s")
	}
}
