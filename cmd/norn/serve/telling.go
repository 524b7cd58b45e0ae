package serve

import (
	"context"
	"log/slog"

	"github.com/norn-dev/norn/cmd/norn/serve/otlp"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/web"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// telling is the export to an OpenTelemetry collector; its exporter is nil where there is none.
type telling struct{ *otlp.Exporter }

// exporter begins the export, where one is configured, and has requests of the HTTP port have spans.
func exporter(ctx context.Context, cfg *config.Config, shown *backend, pages *web.Server, o *Options) telling {
	if cfg.OTLPEndpoint == "" {
		return telling{}
	}
	e, err := otlp.Start(ctx, otlp.Options{
		Endpoint: cfg.OTLPEndpoint, Share: cfg.OTLPShare, Interval: cfg.OTLPInterval, Node: cfg.Name, Version: o.Version, Logger: o.Logger,
		Metrics: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return shown.Gatherer().Gather() }),
	})
	if err != nil {
		o.Logger.Warn("server.otlp_failed", "endpoint", cfg.OTLPEndpoint, "error", err, "meaning", "nothing is sent to the collector")
		return telling{}
	}
	pages.Handler = e.Around(pages.Handler)
	return telling{e}
}

// close sends what is left, and ends it with the audit log and the keys of tokens.
func (t telling) close(known *credentials, log *slog.Logger) {
	defer known.audit.Close()
	defer known.jwt.Close()
	if t.Exporter == nil {
		return
	}
	if err := t.Close(); err != nil {
		log.Warn("server.otlp_failed", "error", err, "meaning", "not all was sent to the collector before the end")
	}
}

// collectors are the export's own metrics.
func (t telling) collectors() []prometheus.Collector {
	if t.Exporter == nil {
		return nil
	}
	return []prometheus.Collector{t.Collector()}
}

// spans is who hears of requests of the client port; nil: nobody.
func (t telling) spans() node.Spans {
	if t.Exporter == nil {
		return nil
	}
	return t.Exporter
}
