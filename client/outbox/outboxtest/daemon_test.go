package outboxtest

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errNotInstalled is returned when a database is not on this machine.
var errNotInstalled = errors.New("not installed")

// patience is how long anything may take on a busy machine.
const patience = 60 * time.Second

// daemon is a database server of the tests.
type daemon struct {
	dir   string // everything it has, its socket included
	owner *syscall.SysProcAttr
	args  []string // the command that runs it
	probe func(ctx context.Context) error
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan struct{}
}

// unprivileged is another user, since database servers refuse root: the one of
// the package, or nobody. It is nil when the tests do not run as root.
func unprivileged(dir string, names ...string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range append(names, "nobody") {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}},
			os.Chown(dir, int(uid), int(gid))
	}
	return nil, errors.New("the tests run as root, and there is no other user to run a database as")
}

// program finds a program by its name in directories and in PATH.
func program(name string, dirs ...string) (string, error) {
	for _, pattern := range dirs {
		found, err := filepath.Glob(filepath.Join(pattern, name))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			slices.Sort(found)
			return found[len(found)-1], nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, errNotInstalled)
	}
	return path, nil
}

// prepare runs a command that makes the data directory.
func (d *daemon) prepare(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr, cmd.Dir, cmd.Env = d.owner, d.dir, append(os.Environ(), "HOME="+d.dir, "TMPDIR="+d.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// start runs the server, and returns once it answers.
func (d *daemon) start() error {
	d.log.Reset()
	d.cmd = exec.Command(d.args[0], d.args[1:]...)
	d.cmd.SysProcAttr, d.cmd.Dir, d.cmd.Env = d.owner, d.dir, append(os.Environ(), "HOME="+d.dir, "TMPDIR="+d.dir)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	d.ended = ended
	cmd := d.cmd
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the log says why
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := d.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-d.ended:
			return fmt.Errorf("%s ended:\n%s", d.args[0], d.log.String())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", d.args[0], err)
		}
	}
}

// stop sends a signal and waits.
func (d *daemon) stop(sig os.Signal) {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-d.ended:
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}

// remove ends the server and deletes what it had.
func (d *daemon) remove() {
	d.stop(syscall.SIGQUIT)
	_ = os.RemoveAll(d.dir) // a temporary directory
}

// pinging is a probe.
func pinging(driver, dsn string) func(context.Context) error {
	return func(ctx context.Context) error {
		db, err := sql.Open(driver, dsn)
		if err != nil {
			return err
		}
		return errors.Join(db.PingContext(ctx), db.Close())
	}
}

// startPostgres makes a cluster of PostgreSQL in a directory of its own, and
// gives the DSN.
func startPostgres() (*daemon, string, error) {
	const debian = "/usr/lib/postgresql/*/bin"
	initdb, err := program("initdb", debian)
	if err != nil {
		return nil, "", err
	}
	postgres, err := program("postgres", debian)
	if err != nil {
		return nil, "", err
	}
	d, err := newDaemon("norn-pg-", "postgres")
	if err != nil {
		return nil, "", err
	}
	data := filepath.Join(d.dir, "data")
	if err := d.prepare(initdb, "-D", data, "-U", "norn", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		d.remove()
		return nil, "", err
	}
	dsn := "host=" + d.dir + " user=norn dbname=postgres sslmode=disable"
	d.args = []string{postgres, "-D", data, "-k", d.dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60", "-c", "shared_buffers=32MB"}
	d.probe = pinging("postgres", dsn)
	if err := d.start(); err != nil {
		d.remove()
		return nil, "", err
	}
	return d, dsn, nil
}

// startMaria makes a MariaDB in a directory of its own, and gives the DSN.
func startMaria() (*daemon, string, error) {
	install, err := program("mariadb-install-db")
	if err != nil {
		return nil, "", err
	}
	server, err := program("mariadbd", "/usr/sbin", "/usr/libexec")
	if err != nil {
		return nil, "", err
	}
	d, err := newDaemon("norn-maria-", "mysql")
	if err != nil {
		return nil, "", err
	}
	data, socket := filepath.Join(d.dir, "data"), filepath.Join(d.dir, "sock")
	if err := d.prepare(install, "--no-defaults", "--datadir="+data, "--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"); err != nil {
		d.remove()
		return nil, "", err
	}
	d.args = []string{
		server, "--no-defaults", "--datadir=" + data, "--socket=" + socket, "--skip-networking", "--pid-file=" + filepath.Join(d.dir, "pid"),
		"--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M", "--skip-log-bin",
	}
	dsn := "root@unix(" + socket + ")/norn?timeout=5s"
	d.probe = pinging("mysql", "root@unix("+socket+")/?timeout=5s")
	if err := d.start(); err != nil {
		d.remove()
		return nil, "", err
	}
	return d, dsn, execute("mysql", "root@unix("+socket+")/", "CREATE DATABASE norn")
}

func newDaemon(prefix, name string) (*daemon, error) {
	dir, err := os.MkdirTemp("", prefix) // short: it holds a socket
	if err != nil {
		return nil, err
	}
	d := &daemon{dir: dir}
	d.owner, err = unprivileged(dir, name)
	return d, err
}

func execute(driver, dsn, statement string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(context.Background(), statement)
	return errors.Join(err, db.Close())
}
