package cli

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// retries is the log of a command's client: it tells, once, that an answer is still
// waited for. Everything else ends in an error that says so, or is mended.
type retries struct {
	app  *App
	once *sync.Once
}

func (r retries) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (r retries) Handle(_ context.Context, e slog.Record) error {
	if e.Message != "trying again" {
		return nil
	}
	var node, why string
	e.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "node":
			node = a.Value.String()
		case "error":
			why = a.Value.String()
		}
		return true
	})
	r.once.Do(func() {
		if !strings.Contains(why, node) {
			why = node + ": " + why
		}
		r.app.Note("%s; trying again, for %v in all (--timeout)", why, r.app.Timeout)
	})
	return nil
}

func (r retries) WithAttrs([]slog.Attr) slog.Handler { return r }

func (r retries) WithGroup(string) slog.Handler { return r }
