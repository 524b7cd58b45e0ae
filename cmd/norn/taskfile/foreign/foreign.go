package foreign

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
)

// Job is a job of another system.
type Job struct {
	// Where says where it was found, for people.
	Where string
	// ID is what it is called there, unique within its queue.
	ID, Queue, Kind string
	Payload         []byte
	Priority        int32
	Tags            []string
	Headers         map[string]string
	// NotBefore is the earliest start; zero: at once.
	NotBefore time.Time
	// Finished jobs are not to be done any more, or were given up.
	Finished bool
}

// Systems are those that can be read.
func Systems() []string { return []string{"asynq", "river", "sidekiq"} }

var (
	// ErrSystem is returned for a system that cannot be read.
	ErrSystem = errors.New("not one of asynq, river, sidekiq")
	// ErrForm is returned for what is not in the form of that system.
	ErrForm = errors.New("not in the form of that system")
)

// Each gives the jobs at an address: a URL of Redis (redis://, rediss://) or PostgreSQL
// (postgres://), or a file with a job in JSON a line. It returns ErrSystem or ErrForm.
func Each(ctx context.Context, system, address string, do func(*Job) error) error {
	scheme, _, _ := strings.Cut(address, "://")
	redis, postgres := scheme == "redis" || scheme == "rediss", scheme == "postgres" || scheme == "postgresql"
	switch {
	case system == "asynq" && redis:
		return withRedis(ctx, address, func(r *redisDB) error { return r.asynq(ctx, do) })
	case system == "asynq":
		return fmt.Errorf("asynq keeps its tasks in Redis: give redis://HOST:PORT/DB, not %q", shown(address))
	case system == "sidekiq" && redis:
		return withRedis(ctx, address, func(r *redisDB) error { return r.sidekiq(ctx, do) })
	case system == "river" && postgres:
		return riverDB(ctx, address, do)
	case system == "sidekiq" && !postgres:
		return lines(address, sidekiqLine, do)
	case system == "river" && !redis:
		return lines(address, riverLine, do)
	case system == "sidekiq" || system == "river":
		return fmt.Errorf("%s does not keep its jobs at %s://: sidekiq has redis://, river postgres://, and both files", system, scheme)
	}
	return fmt.Errorf("--from %q: %w", system, ErrSystem)
}

// shown is an address without what may be a password.
func shown(address string) string {
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		_, host, found := strings.Cut(rest, "@")
		if found {
			return scheme + "://…@" + host
		}
	}
	return address
}

// maxLine bounds a job in a file.
const maxLine = 64 << 20

// lines reads a file with one job a line.
func lines(file string, read func([]byte) (*Job, error), do func(*Job) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // what was read counts
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 1<<16), maxLine)
	n := 0
	for n = 1; s.Scan(); n++ {
		if len(strings.TrimSpace(s.Text())) == 0 {
			continue
		}
		j, err := read(s.Bytes())
		if err == nil {
			j.Where = fmt.Sprintf("line %d", n)
			err = do(j)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", file, n, err)
	}
	return nil
}

// river is a row of river_job, as row_to_json gives it.
type river struct {
	ID        int64           `json:"id"`
	State     string          `json:"state"`
	Priority  int32           `json:"priority"`
	Scheduled riverTime       `json:"scheduled_at"`
	Args      json.RawMessage `json:"args"`
	Kind      string          `json:"kind"`
	Queue     string          `json:"queue"`
	Tags      []string        `json:"tags"`
	Attempt   int             `json:"attempt"`
}

// riverTime is a time of PostgreSQL in JSON, with or without a zone.
type riverTime struct{ time.Time }

func (t *riverTime) UnmarshalText(b []byte) error {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999-07"} {
		if at, err := time.Parse(form, string(b)); err == nil {
			t.Time = at
			return nil
		}
	}
	return fmt.Errorf("%q is no time", b)
}

// riverLine reads a row.
func riverLine(b []byte) (*Job, error) {
	var r river
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if r.ID == 0 || r.Kind == "" || r.Queue == "" || r.State == "" || len(r.Args) == 0 {
		return nil, fmt.Errorf("%w: it takes id, kind, queue, state and args", ErrForm)
	}
	j := &Job{
		ID: fmt.Sprint(r.ID), Queue: r.Queue, Kind: r.Kind, Payload: r.Args, Tags: r.Tags, NotBefore: r.Scheduled.Time,
		Priority: -r.Priority, // 1 is the highest there
		Headers:  map[string]string{"river-attempt": fmt.Sprint(r.Attempt)},
	}
	switch r.State {
	case "available", "pending", "retryable", "running", "scheduled":
	case "cancelled", "completed", "discarded":
		j.Finished = true
	default:
		return nil, fmt.Errorf("%w: state %q", ErrForm, r.State)
	}
	return j, nil
}

// sidekiq is a job as Sidekiq keeps it.
type sidekiq struct {
	Class   string          `json:"class"`
	Wrapped string          `json:"wrapped"` // by Active Job
	Args    json.RawMessage `json:"args"`
	JID     string          `json:"jid"`
	Queue   string          `json:"queue"`
	Retried int             `json:"retry_count"`
	At      float64         `json:"at"`
	Tags    []string        `json:"tags"`
}

// sidekiqLine reads a job.
func sidekiqLine(b []byte) (*Job, error) {
	var s sidekiq
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if s.Class == "" || s.JID == "" || len(s.Args) == 0 {
		return nil, fmt.Errorf("%w: it takes class, jid and args", ErrForm)
	}
	j := &Job{ID: s.JID, Queue: s.Queue, Kind: s.Class, Payload: s.Args, Tags: s.Tags, Headers: map[string]string{"sidekiq-retry-count": fmt.Sprint(s.Retried)}}
	if j.Queue == "" {
		j.Queue = "default"
	}
	if s.Wrapped != "" {
		j.Headers["sidekiq-wrapped"] = s.Wrapped
	}
	if s.At > 0 {
		j.NotBefore = seconds(s.At)
	}
	return j, nil
}

// seconds is a time in seconds since 1970.
func seconds(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)).UTC() }

// QueueName makes a name that Norn takes of the name of a queue elsewhere.
func QueueName(name string) string {
	ok := func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._:/-", r)) {
			return r
		}
		return '-'
	}
	name = strings.Map(ok, name)
	if name == "" || strings.ContainsRune("._:/-", rune(name[0])) {
		name = "q" + name
	}
	return name[:min(len(name), 128)]
}
