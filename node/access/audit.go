package access

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/internal/seldom"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
	gproto "google.golang.org/protobuf/proto"
)

// Record is one line of the audit.
type Record struct {
	Time      time.Time `json:"time"`
	Node      string    `json:"node"`
	Principal string    `json:"principal"`
	ID        string    `json:"id,omitempty"`
	Tenant    string    `json:"tenant,omitempty"`
	Proof     string    `json:"proof"`
	Address   string    `json:"address,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Verb      string    `json:"verb"`
	Method    string    `json:"method"`
	Object    string    `json:"object,omitempty"`
	Items     int       `json:"items,omitempty"`
	Decision  string    `json:"decision"`
	Revision  uint64    `json:"revision,omitempty"`
	// Times is how many requests the line stands for.
	Times int `json:"times"`
}

// The decisions.
const (
	allowed = "allowed"
	refused = "denied"
)

// always are the verbs of which every request is written down.
const always = guard.Access | guard.Cluster | guard.Operate | guard.Schedule | guard.Control

// Which requests for data are written down, beside all that change settings.
const (
	DataOff    = "off"
	DataDenied = "denied"
	DataAll    = "all"
)

// remembered is how many lines are kept in memory for those who ask, at least, once there were
// as many; lastLines how many are told unless more are asked for.
const (
	remembered = 2048
	lastLines  = 1000
)

// last are the newest lines.
//
// after is the number of the last line that the asker has seen, as the reply before said. At
// most limit lines come, the newest ones; a gap in the numbers says that some were not kept.
func (a *Audit) last(m *nornv1.ReadAudit) *nornv1.AccessReply {
	if a == nil {
		return &nornv1.AccessReply{}
	}
	a.writing.Lock()
	defer a.writing.Unlock()
	n := uint64(len(a.lines))
	if m.GetAfter() < a.count {
		n = min(n, a.count-m.GetAfter())
	} else {
		n = 0
	}
	n = min(n, uint64(cmp.Or(m.GetLimit(), lastLines)))
	return &nornv1.AccessReply{Lines: slices.Clone(a.lines[uint64(len(a.lines))-n:]), Last: a.count}
}

// maxSubjects bounds the principals whose refusals are counted apart.
const maxSubjects = 4096

// AuditConfig is what an audit goes by.
type AuditConfig struct {
	// Node is the name of this one.
	Node string
	// To takes the lines, one at a time.
	To io.Writer
	// Data is DataOff, DataDenied or DataAll.
	Data string
	// Logger hears when a line cannot be written.
	Logger *slog.Logger
}

// Audit writes down who did what. A nil Audit writes nothing. It is a Collector.
type Audit struct {
	o       AuditConfig
	denials *prometheus.CounterVec
	lost    prometheus.Counter
	failing seldom.Line

	mu sync.Mutex // guards what follows
	// Invariant: there are at most [maxSubjects]+1 entries: past that all others share one, so
	// that a stranger who invents names cannot fill the memory.
	refusal map[[2]string]*seldom.Line

	writing sync.Mutex // guards what follows, and o.To
	lines   []string   // the last ones, the number of the newest is count
	count   uint64
}

// NewAudit makes an audit.
func NewAudit(o AuditConfig) *Audit {
	a := &Audit{o: o, refusal: make(map[[2]string]*seldom.Line),
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "norn_denied_total", Help: "Requests that were refused because their sender may not do what they ask for."}, []string{"verb"}),
		lost:    prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_audit_lost_total", Help: "Lines of the audit log that could not be written."}),
	}
	guard.All.Each(func(v guard.Verbs) { a.denials.WithLabelValues(v.String()) })
	return a
}

// Describe gives the metrics.
func (a *Audit) Describe(to chan<- *prometheus.Desc) {
	a.denials.Describe(to)
	a.lost.Describe(to)
}

// Collect gives the counts.
func (a *Audit) Collect(to chan<- prometheus.Metric) {
	a.denials.Collect(to)
	a.lost.Collect(to)
}

// Close writes what waits to be written.
func (a *Audit) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.refusal { // Any order: each is a line by itself.
		l.Close()
	}
	a.writing.Lock() // A line that a timer writes is whole before its file closes.
	defer a.writing.Unlock()
	if c, ok := a.o.To.(io.Closer); ok {
		_ = c.Close() // each line was written when its Write returned
	}
}

// judged hears of a decision.
//
// Refusals are always counted. A request for data that was allowed is written only with
// audit-data all.
func (a *Audit) judged(c *Caller, m nornv1.Method, request gproto.Message, err *proto.Error) {
	if a == nil {
		return
	}
	v, _ := guard.Verb(m)
	if err != nil {
		a.denied(c, v, m, request)
		return
	}
	if v&always == 0 && (a.o.Data != DataAll || v == guard.None) || c.goesOn(m, time.Now().UnixNano()) {
		return
	}
	a.write(a.record(c, v, m, request, allowed))
}

// movePause is how long a backup or a restore may pause and be the same one.
const movePause = 10 * time.Minute

// goesOn tells whether a request goes on with a backup or a restore, which take thousands of them: a
// line says when it begins.
func (c *Caller) goesOn(m nornv1.Method, now int64) bool {
	var last *atomic.Int64
	switch m {
	case nornv1.Method_METHOD_BACKUP:
		last = &c.moved[0]
	case nornv1.Method_METHOD_RESTORE:
		last = &c.moved[1]
	default:
		return false
	}
	before := last.Swap(now)
	return before != 0 && now-before < int64(movePause)
}

// denied writes a refusal down, or counts it for the line that is to come.
func (a *Audit) denied(c *Caller, v guard.Verbs, m nornv1.Method, request gproto.Message) {
	a.denials.WithLabelValues(v.String()).Inc()
	if a.o.Data == DataOff && v&always == 0 {
		return
	}
	r := a.record(c, v, m, request, refused)
	key := [2]string{c.Name + "\x00" + c.ID, r.Verb}
	a.mu.Lock()
	l := a.refusal[key]
	if l == nil {
		if len(a.refusal) >= maxSubjects {
			key = [2]string{}
			l = a.refusal[key] // they share a line
		}
		if l == nil {
			l = &seldom.Line{}
			a.refusal[key] = l
		}
	}
	a.mu.Unlock()
	l.Say(func(times int) {
		r.Times = times
		a.write(r)
	})
}

// record makes the line of a request: what it is about and how many items, never what is in
// them.
func (a *Audit) record(c *Caller, v guard.Verbs, m nornv1.Method, request gproto.Message, decision string) *Record {
	object, items := guard.Object(request)
	return &Record{
		Time: time.Now().UTC(), Node: a.o.Node, Principal: c.Name, ID: c.ID, Tenant: c.Tenant, Proof: c.Proof, Address: c.address, Agent: c.agent,
		Verb: v.String(), Method: guard.MethodName(m), Object: object, Items: items, Decision: decision, Times: 1,
	}
}

// write appends a line to memory and to the log. A line that cannot be written is counted and
// told of; the request that it is about goes on, as it has been carried out or refused already.
func (a *Audit) write(r *Record) {
	line, err := json.Marshal(r)
	if err == nil {
		a.writing.Lock()
		if len(a.lines) >= 2*remembered {
			a.lines = slices.Clone(a.lines[remembered:])
		}
		a.lines, a.count = append(a.lines, string(line)), a.count+1
		_, err = a.o.To.Write(append(line, '\n'))
		a.writing.Unlock()
	}
	if err == nil {
		return
	}
	a.lost.Inc()
	a.failing.Say(func(times int) {
		a.o.Logger.Error("audit.lost", "lines", times, "error", err, "meaning", "the audit log cannot be written; see audit-log")
	})
}
