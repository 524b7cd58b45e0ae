// Package otlp sends what a server does to an OpenTelemetry collector: its metrics, those of
// /metrics, and spans of some of its requests, over HTTP.
//
// Contract. Nothing waits for the collector. Spans go into a queue of [queued], and what has no
// room in it is dropped and counted (norn_otlp_spans_dropped_total); metrics are gathered beside
// the loop, as for a scrape, and a reading that cannot be sent is left out: the next one has all of
// it. At most [maxOpen] requests of the client port have an open span. [Exporter.Close] sends what
// is left, within [closing].
package otlp
