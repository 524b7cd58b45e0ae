package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// scrapeShared is how long one reading of the metrics is given to all who ask. Numbers are
// not older than that, and whoever asks without end costs one reading in each.
const scrapeShared = time.Second

// scrapes gives the metrics to those who ask: they are gathered by one at a time.
type scrapes struct {
	gather http.Handler
	from   func() prometheus.Gatherer
	// some gives what takes out the metrics that a reader may not see; nil: all may be seen.
	some func(*http.Request) func(prometheus.Gatherer) prometheus.Gatherer

	turn   chan struct{} // room for who holds what follows, also while they are gathered
	until  time.Time     // the reading is shared until then
	code   int
	kind   string
	plain  []byte
	packed []byte // the same, compressed; nil: nobody has asked for it
}

// newScrapes asks each time whose metrics they are: a node that starts has none yet.
func newScrapes(from func() prometheus.Gatherer) *scrapes {
	gather := func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(from(), promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(w, r)
	}
	return &scrapes{turn: make(chan struct{}, 1), gather: http.HandlerFunc(gather), from: from}
}

// ServeHTTP answers with the reading of the moment, in the text format that every
// monitoring system takes.
func (s *scrapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.some != nil {
		if keep := s.some(r); keep != nil {
			promhttp.HandlerFor(keep(s.from()), promhttp.HandlerOpts{}).ServeHTTP(w, r)
			return
		}
	}
	select {
	case s.turn <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	pack := takesGzip(r)
	code, kind, body := s.reading(pack)
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept-Encoding")
	if pack {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // else the client is gone
}

// reading gives one that is fresh enough, and makes it where there is none. The turn is
// the caller's, and over then.
func (s *scrapes) reading(pack bool) (code int, kind string, body []byte) {
	defer func() { <-s.turn }()
	if now := time.Now(); s.until.IsZero() || !now.Before(s.until) {
		taken := &taken{header: make(http.Header), code: http.StatusOK}
		s.gather.ServeHTTP(taken, &http.Request{Method: http.MethodGet, Header: make(http.Header)})
		s.code, s.kind, s.plain, s.packed = taken.code, taken.header.Get("Content-Type"), taken.body.Bytes(), nil
		s.until = time.Now().Add(scrapeShared)
	}
	if !pack {
		return s.code, s.kind, s.plain
	}
	if s.packed == nil {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is good
		_, _ = z.Write(s.plain)                         // a buffer takes all
		_ = z.Close()
		s.packed = b.Bytes()
	}
	return s.code, s.kind, s.packed
}

// shownTo gives what takes out the metrics that a caller may not see: there are left those of its
// queues and of its tenant, and nothing of the node.
func (g *guard) shownTo(r *http.Request) func(prometheus.Gatherer) prometheus.Gatherer {
	who := callerOf(r.Context())
	if who == nil {
		return nil // metrics are open
	}
	shown, tenant := g.access.Measured(who)
	if shown == nil {
		return nil
	}
	may := func(label, value string) bool {
		return label == "queue" && shown(value) || label == "tenant" && tenant != "" && value == tenant
	}
	return func(from prometheus.Gatherer) prometheus.Gatherer { return narrowed{from, may} }
}

// narrowed are the metrics with a label that may be seen.
type narrowed struct {
	prometheus.Gatherer
	may func(label, value string) bool
}

// Gather gives them.
func (n narrowed) Gather() ([]*dto.MetricFamily, error) {
	all, err := n.Gatherer.Gather()
	kept := all[:0]
	for _, family := range all {
		family.Metric = slices.DeleteFunc(family.Metric, func(m *dto.Metric) bool {
			return !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return n.may(l.GetName(), l.GetValue()) })
		})
		if len(family.Metric) > 0 {
			kept = append(kept, family)
		}
	}
	return kept, err
}

// takesGzip tells whether a client takes compressed answers.
func takesGzip(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(header, ",") {
			name, weight, weighed := strings.Cut(strings.ReplaceAll(one, " ", ""), ";q=")
			if q, err := strconv.ParseFloat(weight, 64); strings.EqualFold(name, "gzip") && (!weighed || err == nil && q > 0) {
				return true
			}
		}
	}
	return false
}

// taken is an answer that is kept.
type taken struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (t *taken) Header() http.Header         { return t.header }
func (t *taken) WriteHeader(code int)        { t.code = code }
func (t *taken) Write(b []byte) (int, error) { return t.body.Write(b) }
