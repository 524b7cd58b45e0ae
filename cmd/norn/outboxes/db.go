package outboxes

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	_ "github.com/lib/pq"  // the driver "postgres"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/cmd/norn/cli"
)

// DatabaseVariable is the environment variable for --db: a command line is for
// everyone on the machine to read, with the password in it.
const DatabaseVariable = "NORN_OUTBOX_DB"

// database is what --db says.
type database struct {
	dialect     outbox.Dialect
	driver, dsn string
	shown       string // without a password
}

// parseDatabase reads a URL. What is wrong is never shown with the password in
// it.
func parseDatabase(text string) (database, error) {
	if text == "" {
		return database{}, cli.Usage("no database; give its URL with --db or %s", DatabaseVariable)
	}
	scheme, rest, _ := strings.Cut(text, ":")
	switch strings.ToLower(scheme) {
	case "sqlite", "sqlite3", "file":
		return sqliteDatabase(rest)
	case "postgres", "postgresql":
		u, err := parseURL(text)
		if err != nil {
			return database{}, err
		}
		u.Scheme = "postgres"
		return database{outbox.PostgreSQL, "postgres", u.String(), u.Redacted()}, nil
	case "mysql", "mariadb":
		return mysqlDatabase(text)
	}
	return database{}, cli.Usage("--db: it is not a URL of postgres:, mysql:, mariadb: or sqlite:")
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // the rest is the URL
		}
		return nil, cli.Usage("--db: it is no URL: %w (characters of a password that mean something in URLs are written %%40 and the like)", err)
	}
	return u, nil
}

// sqliteDatabase has a path, with parameters of the driver behind a ?. The file
// must be there, and whoever finds it busy waits.
func sqliteDatabase(rest string) (database, error) {
	path, query, _ := strings.Cut(rest, "?")
	if strings.HasPrefix(path, "//") {
		path = "/" + strings.TrimLeft(path, "/")
	}
	if path == "" || path == "/" {
		return database{}, cli.Usage("--db: sqlite: needs the path of a file")
	}
	params, err := url.ParseQuery(query)
	if err != nil {
		return database{}, cli.Usage("--db: parameters: %w", err)
	}
	if params.Get("mode") == "" {
		params.Set("mode", "rw")
	}
	if !strings.Contains(query, "busy_timeout") {
		params.Add("_pragma", "busy_timeout(10000)")
	}
	return database{outbox.SQLite, "sqlite", "file:" + path + "?" + params.Encode(), "sqlite:" + path}, nil
}

// mysqlDatabase is mysql://user:password@host:port/name?parameters, with the
// driver's parameters, or ?socket=/path in place of a host.
func mysqlDatabase(text string) (database, error) {
	u, err := parseURL(text)
	if err != nil {
		return database{}, err
	}
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" || strings.Contains(name, "/") {
		return database{}, cli.Usage("--db: mysql: needs the name of a database: mysql://user@host/NAME")
	}
	params := u.Query()
	socket := params.Get("socket")
	params.Del("socket")
	cfg, err := mysql.ParseDSN("/x?" + params.Encode())
	if err != nil {
		return database{}, cli.Usage("--db: parameters: %w", err)
	}
	cfg.DBName, cfg.User = name, u.User.Username()
	cfg.Passwd, _ = u.User.Password()
	cfg.Net, cfg.Addr = "unix", socket
	if socket == "" {
		port := u.Port()
		if port == "" {
			port = "3306"
		}
		host := u.Hostname()
		if host == "" {
			host = "127.0.0.1"
		}
		cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(host, port)
	}
	return database{outbox.MySQL, "mysql", cfg.FormatDSN(), u.Redacted()}, nil
}

// open connects to the database, and to the table in it.
func (f *outboxFlags) open(ctx context.Context) (*sql.DB, *outbox.Outbox, error) {
	d, err := parseDatabase(f.db)
	if err != nil {
		return nil, nil, err
	}
	box, err := outbox.New(d.dialect, outbox.Options{Table: f.table})
	if err != nil {
		return nil, nil, cli.Usage("--table: %w", err)
	}
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		return nil, nil, cli.Usage("--db: %w", err)
	}
	if _, err := box.Backlog(ctx, db); err != nil {
		return nil, nil, errors.Join(&databaseError{d: d, err: err}, db.Close())
	}
	return db, box, nil
}

// databaseError is one line about a database that cannot be used.
type databaseError struct {
	d   database
	err error
}

func (e *databaseError) Error() string {
	text := strings.ReplaceAll(e.err.Error(), "\n", "; ")
	hint := "if the table is missing: `norn outbox schema " + string(e.d.dialect) + "` prints what makes it"
	if strings.Contains(text, "SSL is not enabled") {
		hint = "if the connection may be in the clear, put sslmode=disable behind the ? of the URL"
	}
	return "database " + e.d.shown + ": " + text + " (" + hint + ")"
}

func (e *databaseError) Unwrap() error { return e.err }
