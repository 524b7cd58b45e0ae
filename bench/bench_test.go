package bench

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB) *client.Client {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.DiskReserve, cfg.DiskStop = t.TempDir(), "127.0.0.1:0", 2<<20, 1<<20
	n, err := node.Start(cfg, node.Options{Version: "test", Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), []string{n.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestScenariosAreValidOnAHealthyNode(t *testing.T) {
	c := dial(t)
	for name, figure := range map[string]string{
		"enqueue": "enqueue_rate", "claim": "claim_complete_rate", "cycle": "cycle_rate",
		"latency": "enqueue_to_claim_p99", "backlog": "ratio",
	} {
		for _, batch := range []int{1, 7} {
			cfg := Default()
			cfg.Scenario, cfg.Tasks, cfg.Batch, cfg.Rate, cfg.Duration = name, 300, batch, 200, 500*time.Millisecond
			r, err := Run(t.Context(), c, cfg, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := r.Valid(); err != nil {
				t.Errorf("%s, batch %d: %v", name, batch, err)
			}
			if v, ok := r.Get(figure); !ok || v <= 0 {
				t.Errorf("%s, batch %d: figure %s is %v, %v", name, batch, figure, v, ok)
			}
		}
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Scenario = "nothing" },
		func(c *Config) { c.Scenario = "failover" },
		func(c *Config) { c.Batch = 10_001 },
		func(c *Config) { c.Workers = 0 },
		func(c *Config) { c.Duration = 0 },
	} {
		cfg := Default()
		change(&cfg)
		if _, err := Run(t.Context(), nil, cfg, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v, want ErrConfig", cfg, err)
		}
	}
}

func TestAnInvalidRunSaysSo(t *testing.T) {
	r := newReport(Default(), "")
	if err := r.Valid(); err != nil {
		t.Fatalf("an empty report: %v", err)
	}
	r.fail(errors.New("first"))
	r.fail(errors.New("second"))
	if err := r.Valid(); err == nil || r.FirstError != "first" || r.Errors != 2 {
		t.Fatalf("after two errors: %v, %+v", err, r)
	}
	for _, spoil := range []func(*Report){func(r *Report) { r.Lost = 1 }, func(r *Report) { r.Duplicates = 1 }} {
		r := newReport(Default(), "")
		if spoil(r); r.Valid() == nil {
			t.Fatalf("%+v passes", r)
		}
	}
}
