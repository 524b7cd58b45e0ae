package outbox

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
)

func TestSchema(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		want    []string
	}{
		{PostgreSQL, []string{"CREATE TABLE IF NOT EXISTS app.box (", `id       VARCHAR(27) COLLATE "C" PRIMARY KEY,`, "payload  BYTEA NOT NULL", "CREATE INDEX IF NOT EXISTS box_due ON app.box (aside, due, id);"}},
		{MySQL, []string{"CREATE TABLE IF NOT EXISTS app.box (", "COLLATE ascii_bin NOT NULL PRIMARY KEY", "LONGBLOB NOT NULL", "KEY box_due (aside, due, id)\n) ENGINE=InnoDB"}},
		{SQLite, []string{"CREATE TABLE IF NOT EXISTS app.box (", "payload  BLOB NOT NULL", "CREATE INDEX IF NOT EXISTS app.box_due ON box (aside, due, id);"}},
	} {
		o, err := New(c.dialect, Options{Table: "app.box"})
		if err != nil {
			t.Fatal(err)
		}
		got := o.Schema()
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", c.dialect, want, got)
			}
		}
		if strings.Contains(got, "%!") || !strings.HasSuffix(got, ";\n") {
			t.Errorf("%s:\n%s", c.dialect, got)
		}
		if o, err = New(c.dialect, Options{}); err != nil || o.Schema() != Schema(c.dialect) || !strings.Contains(o.Schema(), "norn_outbox_due") {
			t.Errorf("%s: %v\n%s", c.dialect, err, o.Schema())
		}
	}
	if got := Schema("oracle"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestWritten(t *testing.T) {
	at := time.Unix(1_790_000_000, 5).UTC()
	made := id.NewGenerator(1, func() uint64 { return 1 }).Next(at.UnixNano()).String()
	key := id.UniqueKey([16]byte{}, "q", "k", 0, 0).String()
	for _, c := range []struct {
		text    string
		created int64
		want    time.Time
	}{
		{made, 0, at}, {made, 77, at}, {key, 77, time.UnixMilli(77).UTC()}, {"x", 77, time.UnixMilli(77).UTC()}, {key, 0, time.Time{}},
	} {
		if got := written(c.text, c.created); !got.Equal(c.want) {
			t.Errorf("%q, %d: %v, want %v", c.text, c.created, got, c.want)
		}
	}
}
