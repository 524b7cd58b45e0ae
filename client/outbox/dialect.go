package outbox

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// DefaultTable is the name of the table unless [Options] say otherwise.
const DefaultTable = "norn_outbox"

// Dialect names a database, for the differences in its SQL.
type Dialect string

// The databases whose SQL this package speaks.
const (
	PostgreSQL Dialect = "postgres"
	MySQL      Dialect = "mysql" // 8.0.1 or later, MariaDB 10.6 or later; earlier ones with leases
	SQLite     Dialect = "sqlite"
)

var (
	// ErrDialect is returned when a dialect is not one of this package.
	ErrDialect = errors.New("outbox: unknown database")
	// ErrTable is returned when the name of a table would have to be quoted.
	ErrTable = errors.New("outbox: bad table name")
)

// ParseDialect reads the name of a database: postgres (also postgresql, pgx),
// mysql (also mariadb), sqlite (also sqlite3). It returns ErrDialect for others.
func ParseDialect(name string) (Dialect, error) {
	switch strings.ToLower(name) {
	case "postgres", "postgresql", "pgx":
		return PostgreSQL, nil
	case "mysql", "mariadb":
		return MySQL, nil
	case "sqlite", "sqlite3":
		return SQLite, nil
	}
	return "", fmt.Errorf("%w: %q is not postgres, mysql or sqlite", ErrDialect, name)
}

// plainTable is what needs no quotes in any of the databases, with a schema in
// front or not. 48 leaves room for the name of the index (PostgreSQL: 63).
var plainTable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,47}\.)?[A-Za-z_][A-Za-z0-9_]{0,47}$`)

// table makes statements for one table of one database.
type table struct {
	dialect Dialect
	name    string
}

func newTable(d Dialect, name string) (table, error) {
	if known, err := ParseDialect(string(d)); err != nil || known != d {
		return table{}, fmt.Errorf("%w: %q is not postgres, mysql or sqlite", ErrDialect, string(d))
	}
	if name == "" {
		name = DefaultTable
	}
	if !plainTable.MatchString(name) {
		return table{}, fmt.Errorf("%w: %.120q is not letters, digits and _ (at most 48), with a schema in front or not", ErrTable, name)
	}
	return table{dialect: d, name: name}, nil
}

// sql completes a statement: TABLE becomes the table, each ? the placeholder of
// the dialect. Statements of this package have no ? in text.
func (t table) sql(statement string) string {
	statement = strings.ReplaceAll(statement, "TABLE", t.name)
	if t.dialect != PostgreSQL {
		return statement
	}
	var b strings.Builder
	n := 0
	for _, r := range statement {
		if r == '?' {
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// in completes a statement that ends in IN with the placeholders of ids, and
// gives the arguments. There are a power of two of them (the last ID again and
// again), so that drivers that keep prepared statements keep few.
func (t table) in(statement string, ids []string) (string, []any) {
	n := 1
	for n < len(ids) {
		n *= 2
	}
	args := make([]any, n)
	for i := range args {
		args[i] = ids[min(i, len(ids)-1)]
	}
	return t.sql(statement + " (?" + strings.Repeat(", ?", n-1) + ")"), args
}

// Schema is the SQL that makes the table and its index, as statements that end
// in ";" and a newline. Running it twice does no harm. It is empty for an unknown
// dialect.
func Schema(d Dialect) string {
	t, err := newTable(d, DefaultTable)
	if err != nil {
		return ""
	}
	return strings.Join(t.schema(), "")
}

// schema is one statement per element.
func (t table) schema() []string {
	const columns = `  id       %s PRIMARY KEY, -- of the task, in its text form
  queue    VARCHAR(128) NOT NULL,
  priority INTEGER NOT NULL DEFAULT 0,
  payload  %s NOT NULL,
  options  %s, -- JSON: what else there is to say about the task
  created  BIGINT NOT NULL DEFAULT 0, -- ms since 1970
  due      BIGINT NOT NULL DEFAULT 0, -- ms since 1970: not sent before
  error    TEXT, -- why it was refused last
  attempts INTEGER NOT NULL DEFAULT 0, -- how often the cluster has refused it
  aside    SMALLINT NOT NULL DEFAULT 0%s -- 1: refused for good
`
	plain := t.name[strings.LastIndexByte(t.name, '.')+1:]
	index := plain + "_due"
	create := "CREATE TABLE IF NOT EXISTS " + t.name + " (\n"
	switch t.dialect {
	case MySQL:
		return []string{create + fmt.Sprintf(columns, "CHAR(27) CHARACTER SET ascii COLLATE ascii_bin NOT NULL", "LONGBLOB", "MEDIUMTEXT", ",") +
			"  KEY " + index + " (aside, due, id)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n"}
	case SQLite: // where the schema belongs to the index, not to its table
		return []string{
			create + fmt.Sprintf(columns, "TEXT NOT NULL", "BLOB", "TEXT", "") + ");\n",
			"CREATE INDEX IF NOT EXISTS " + t.name + "_due ON " + plain + " (aside, due, id);\n",
		}
	}
	return []string{
		create + fmt.Sprintf(columns, `VARCHAR(27) COLLATE "C"`, "BYTEA", "TEXT", "") + ");\n",
		"CREATE INDEX IF NOT EXISTS " + index + " ON " + t.name + " (aside, due, id);\n",
	}
}
