package foreign

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/lib/pq" // the driver "postgres"
)

// riverDB reads the table river_job, in the order of its IDs.
func riverDB(ctx context.Context, address string, do func(*Job) error) error {
	db, err := sql.Open("postgres", address)
	if err != nil {
		return fmt.Errorf("%s: it is no URL of PostgreSQL", shown(address)) // the error may have the password
	}
	defer func() { _ = db.Close() }() // what was read counts
	rows, err := db.QueryContext(ctx, "SELECT row_to_json(j)::text FROM river_job j ORDER BY id")
	if err != nil {
		return fmt.Errorf("%s: %w", shown(address), err)
	}
	defer func() { _ = rows.Close() }() // errors of it are told by Err
	for rows.Next() {
		var line []byte
		if err := rows.Scan(&line); err != nil {
			return err
		}
		j, err := riverLine(line)
		if err != nil {
			return fmt.Errorf("table river_job: %w", err)
		}
		j.Where = "river_job " + j.ID
		if err := do(j); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err())
}
