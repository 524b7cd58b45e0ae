package outboxes

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/cmd/norn/cli"
)

func TestParseDatabase(t *testing.T) {
	for _, c := range []struct{ url, driver, dsn string }{
		{"postgres://u:p@h/d?sslmode=disable", "postgres", "postgres://u:p@h/d?sslmode=disable"},
		{"postgresql:///d?host=/run/postgresql", "postgres", "postgres:///d?host=/run/postgresql"},
		{"mysql://u:p%40x@h/d?tls=skip-verify", "mysql", "u:p@x@tcp(h:3306)/d?tls=skip-verify"},
		{"mariadb://u@[::1]:3307/d", "mysql", "u@tcp([::1]:3307)/d"},
		{"mysql://u@/d?socket=/run/mysqld/mysqld.sock", "mysql", "u@unix(/run/mysqld/mysqld.sock)/d"},
		{"sqlite:app.db", "sqlite", "file:app.db?_pragma=busy_timeout%2810000%29&mode=rw"},
		{"sqlite:///srv/app.db?_pragma=busy_timeout(5)", "sqlite", "file:/srv/app.db?_pragma=busy_timeout%285%29&mode=rw"},
	} {
		d, err := parseDatabase(c.url)
		if err != nil || d.driver != c.driver || d.dsn != c.dsn {
			t.Errorf("%s: %+v, %v", c.url, d, err)
		}
		if strings.Contains(d.shown, "p@") || strings.Contains(d.shown, "p%40x") {
			t.Errorf("%s is shown as %s", c.url, d.shown)
		}
	}
	for _, bad := range []string{"", "x", "mysql://h", "mysql://h/a/b", "sqlite:", "sqlite://", "postgres://u:%zz@h/d", "sqlite:a?%zz", "oracle://h/d", "mysql://h/d?timeout=soon"} {
		if d, err := parseDatabase(bad); err == nil || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%q: %+v, %v", bad, d, err)
		}
	}
}
