// Package outboxtest holds the tests of the outbox against real databases, in a
// module of its own: a program that uses the outbox gets no driver with it.
//
// The tests start the databases themselves, in a temporary directory, on a
// Unix socket: PostgreSQL and MariaDB when they are installed (Debian: postgresql,
// mariadb-server; otherwise they are skipped, and say so), SQLite always. The
// last link is tested with the program norn itself, which they build.
//
//	cd client/outbox/outboxtest && go test .
package outboxtest
