package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/client/worker/command"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/outboxes"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
)

// defaultGrace is the time between SIGTERM and SIGKILL, for leases that allow
// it.
const defaultGrace = 5 * time.Second

const workHelp = `Run a command once per task. The payload is its standard input; its environment
has NORN_TASK_ID, NORN_TOKEN, NORN_QUEUE, NORN_KIND, NORN_TAGS (one per line),
NORN_ATTEMPT (1 for the first run) and NORN_CHECKPOINT_FILE (a file with the last update of earlier claims), and, unless with
--pass-auth, not the token and the certificate of NORN_AUTH_… and NORN_TLS_…. Each line
of its standard output becomes an update of the task.

Exit status 0 completes the task, 75 (EX_TEMPFAIL) puts it off without using an
attempt, anything else fails it with the end of standard error. When the claim is
lost or the task cancelled, the command's process group gets SIGTERM, and SIGKILL
after --grace.

SIGINT, SIGTERM or SIGHUP: what runs is finished and nothing new is taken. With a
second one, or once --finish-timeout is over, commands are ended and their tasks
given back, without using an attempt. Where something kills the worker a while after
its signal (a container's grace period, TimeoutStopSec=), --finish-timeout and --grace
together are to be a few seconds less than that. The commands of a worker that is
killed are killed with it, on Linux. Lines of the log that nobody reads are lost and
counted; the worker goes on.

Under systemd it says when it is ready (Type=notify), that it stops, and that it
is alive (WatchdogSec=). Its unit needs KillMode=mixed, so that the first SIGTERM
is its own, and a TimeoutStopSec= that is longer than a task.

Exit codes: 0 after a signal, or when --exit-when-empty ends it, whatever became
of the tasks (-o json prints how many completed, failed and so on); 1 it could not
go on, or norn worker kill ended it; 2 the command line is wrong, the command is not there, or the server
refuses what it asks for; 4 no server answered at the start; 5 another process
holds the lock of --lock; 71 commands cannot be started here. Outages after the
start are bridged.

A task whose command cannot be started (no temporary files, too few open files, the
command is gone) is given back without using an attempt. The worker then pauses, for
longer each time up to half a minute, and norn worker list and norn task explain say
why. One that could never start a command ends after --give-up.`

// workCommand is `norn work`.
type workCommand struct{ *app }

func (a workCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "work -q QUEUE[,QUEUE…] -- COMMAND [ARG…]", Short: "Run a command for each task", Args: cobra.ArbitraryArgs,
		Annotations: map[string]string{cli.WordsEndFlags: ""},
		Long:        workHelp,
		Example: `  norn work -q mail -- sendmail -t
  norn work -q mail --finish-timeout 20s --grace 5s -- ./send-mail
  norn work -q files --slots 8 --exit-when-empty -- sh -c 'gzip -9 < "$(cat)" | wc -c'`,
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	var cfg worker.Config
	var o workOptions
	f.StringSliceVarP(&cfg.Queues, "queue", "q", nil, "from these `queues` (repeatable)")
	f.IntVar(&cfg.Slots, "slots", 1, "run so many at once")
	f.IntVar(&cfg.Prefetch, "prefetch", worker.Adaptive, "claim so many more ahead; 0: none, -1: as many as slots while all of the last runs took less than 100 ms")
	f.StringVar(&cfg.Name, "name", "", "`name` of the worker, exclusive in the cluster (default: host, process and four digits)")
	f.StringVar(&cfg.LockFile, "lock", "", "keep this `file` locked: with it and --name, who starts again after a crash takes over at once")
	f.DurationVar(&cfg.Lease, "lease", proto.DefaultLease, "length of the claims, 1s to 24h; renewed at a third of it")
	f.BoolVar(&cfg.Pull, "pull", false, "ask for tasks instead of keeping a session with a node")
	f.BoolVar(&cfg.ExitWhenEmpty, "exit-when-empty", false, "end once nothing is ready, nothing runs, and no retry of what ran here is due within a minute")
	f.DurationVar(&cfg.Timeout, "task-timeout", 0, "end a command after so long, and fail its task (default: no limit)")
	f.DurationVar(&o.run.Grace, "grace", 0, "between SIGTERM and SIGKILL (default: 5s, less for short leases)")
	f.DurationVar(&cfg.GiveUp, "give-up", time.Minute, "end with 71 when no command could be started for so long, and none ever was; 0: go on trying")
	f.BoolVar(&o.passAuth, "pass-auth", false, "leave the token and the certificate for the servers in the environment of the commands")
	f.DurationVar(&o.finish, "finish-timeout", 0, "after the first signal, give back what has not ended by then (default: it may finish)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.NotEmpty(cmd, "name", "lock"); err != nil {
			return err
		}
		o.run.Args = args
		if err := checkWork(cfg, o); err != nil {
			return err
		}
		if !f.Changed("finish-timeout") {
			o.finish = -1
		}
		if !o.passAuth {
			o.run.Without = isSecret
		}
		if o.run.Grace == 0 {
			o.run.Grace = min(defaultGrace, cfg.Lease/4)
		}
		if err := o.run.Check(); err != nil {
			return cli.Usage("%w", err)
		}
		if err := o.run.CheckHost(cfg.Slots); err != nil {
			return fmt.Errorf("%w: %w", worker.ErrUnable, err)
		}
		defer reapAsFirst(&o.run)()
		lines := a.Daemon(nil)
		o.run.Stderr, o.lost = lines, lines.Lost
		// The worker gives the command a little longer than it takes to be killed.
		cfg.Grace = o.run.Grace + min(cfg.Lease/12, time.Second)
		return a.With(cmd.Context(), func(c *client.Client) error { return a.runWorker(cmd.Context(), c, cfg, o) })
	}
	return cmd
}

// checkWork says what is wrong with a command line.
func checkWork(cfg worker.Config, o workOptions) error {
	grace := o.run.Grace
	switch {
	case len(cfg.Queues) == 0:
		return cli.Usage("no queue; name one with -q")
	case len(o.run.Args) == 0:
		return cli.Usage("no command; give it after --")
	case cfg.Slots < 1 || cfg.Slots > worker.MaxSlots:
		return cli.Usage("--slots: %d is not between 1 and %d", cfg.Slots, worker.MaxSlots)
	case cfg.Prefetch < worker.Adaptive || cfg.Prefetch > worker.MaxSlots-cfg.Slots:
		return cli.Usage("--prefetch: %d is not between -1 and %d", cfg.Prefetch, worker.MaxSlots-cfg.Slots)
	case cfg.Lease < clock.MinLease || cfg.Lease > clock.MaxLease:
		return cli.Usage("--lease: %s is not between 1s and 24h", cfg.Lease)
	case cfg.Timeout < 0:
		return cli.Usage("--task-timeout: %s is below zero", cfg.Timeout)
	case len(cfg.Name) > proto.MaxWorkerName || !utf8.ValidString(cfg.Name):
		return cli.Usage("--name: it is not UTF-8, or has over %d bytes", proto.MaxWorkerName)
	case cfg.LockFile != "" && cfg.Name == "":
		return cli.Usage("--lock without --name: only who comes back under the same name takes over")
	case cfg.GiveUp < 0:
		return cli.Usage("--give-up: %s is below zero", cfg.GiveUp)
	case o.finish < 0:
		return cli.Usage("--finish-timeout: %s is below zero", o.finish)
	case grace < 0:
		return cli.Usage("--grace: %s is below zero", grace)
	case grace > cfg.Lease/4:
		return cli.Usage("--grace: %s is more than a quarter of --lease (%s): a lost task would run on while another worker begins it", grace, cfg.Lease)
	}
	for _, q := range cfg.Queues {
		if err := proto.CheckQueue(q); err != nil {
			return cli.Usage("--queue: %v", err)
		}
	}
	return checkLock(cfg.LockFile)
}

// checkLock finds a lock file that can never be one.
func checkLock(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return cli.Usage("--lock: %s is a directory", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return cli.Usage("--lock: there is no directory %s", filepath.Dir(path))
	}
	return nil
}

// isSecret tells which variables are how this program, or a server, shows who it is: a task's
// command has no need of them, and may tell others of its environment.
func isSecret(variable string) bool {
	switch variable {
	case "NORN_AUTH_TOKEN", "NORN_AUTH_TOKEN_FILE", "NORN_TLS_CERT", "NORN_TLS_KEY", outboxes.DatabaseVariable:
		return true
	}
	return strings.HasPrefix(variable, "NORN_SERVER_")
}

// workOptions are what a worker of the command line has beside the configuration of all.
type workOptions struct {
	run      command.Config
	passAuth bool
	finish   time.Duration // that tasks have after the first signal; below zero: as long as they like
	lost     func() uint64 // lines of the log
}

// patience ends when the tasks that run are to be given back.
func (o workOptions) patience() (context.Context, context.CancelFunc) {
	if o.finish < 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), o.finish)
}

// longest says for how long tasks may still run.
func (o workOptions) longest() string {
	if o.finish < 0 {
		return ""
	}
	return " for " + render.Duration(o.finish) + " at most"
}

// runWorker works until it is told to stop or there is nothing left.
func (a workCommand) runWorker(ctx context.Context, c *client.Client, cfg worker.Config, o workOptions) error {
	// Later outages are bridged, but nobody wants to wait for a typo.
	if err := c.Connect(ctx); err != nil {
		return err
	}
	a.Note("connected to node %s, waiting for tasks from %s", c.Info().Node, strings.Join(cfg.Queues, ", "))
	manager := newNotifier(a.Environ)
	defer manager.close()
	var sum tally
	began := time.Now()
	progress := a.Progress("done")
	cfg.OnEvent = func(e worker.Event) {
		sum.add(e.Kind, func(completed uint64) {
			if (e.Kind == worker.Failed || e.Kind == worker.Lost || e.Kind == worker.Unreported) && !a.Quiet {
				progress.Clear()
				a.Complain(cli.Clean(fmt.Sprintf("task %s %s: %v", e.Task.ID(), e.Kind, oneLine(e.Err))))
			}
			progress.Set(completed)
		})
	}
	if !a.Quiet {
		cfg.Logger = slog.New(slog.NewTextHandler(a.ErrOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	w := worker.New(c, cfg)
	w.Handle("*", command.Handler(o.run))
	soft, now, done := cli.TwoSignals(ctx)
	defer done()
	finished := make(chan struct{})
	var stopping sync.WaitGroup
	living, ended := context.WithCancel(context.Background())
	defer ended()
	manager.live(living, &stopping)
	manager.tell("READY=1", "STATUS=taking tasks from "+strings.Join(cfg.Queues, ", "))
	stopping.Go(func() {
		select {
		case <-soft.Done():
		case <-finished:
			return
		}
		manager.tell("STOPPING=1", "STATUS=finishing what runs")
		patience, cancel := o.patience()
		defer cancel()
		a.Note("finishing what runs%s, taking nothing new; again to stop at once", o.longest())
		stopping.Go(func() {
			select {
			case <-now:
				cancel()
			case <-finished:
			}
		})
		if errors.Is(w.Stop(patience), context.DeadlineExceeded) { // otherwise the second signal came, or all is done
			a.Note("--finish-timeout is over: what still ran was given back")
		}
	})
	err := w.Run(context.WithoutCancel(ctx))
	close(finished)
	ended()
	stopping.Wait()
	progress.Clear()
	if a.Format == render.Table {
		a.Note("%s", sum.text(time.Since(began)))
		return err
	}
	result := sum.value(time.Since(began)).With("log_lines_lost", jsonform.Uint64(o.lost()))
	if failed := a.Writer().Object(result, func(io.Writer) {}); err == nil {
		err = failed
	}
	return err
}

// tally counts what became of the tasks.
type tally struct {
	mu    sync.Mutex // guards kinds, and what is told of them
	kinds map[worker.EventKind]uint64
}

// add counts, and calls then, one call at a time, with how many have completed.
func (t *tally) add(k worker.EventKind, then func(completed uint64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kinds == nil {
		t.kinds = make(map[worker.EventKind]uint64)
	}
	t.kinds[k]++
	then(t.kinds[worker.Completed])
}

// ends are the ways in which the run of a task can end.
func ends() []worker.EventKind {
	return []worker.EventKind{worker.Completed, worker.Failed, worker.Snoozed, worker.Released, worker.Lost, worker.Unreported}
}

func (t *tally) value(took time.Duration) jsonform.Value {
	v := jsonform.Object()
	for _, k := range ends() {
		v = v.With(string(k), jsonform.Uint64(t.kinds[k]))
	}
	return v.With("seconds", jsonform.Seconds(took))
}

func (t *tally) text(took time.Duration) string {
	s := render.Number(t.kinds[worker.Completed]) + " completed"
	for _, k := range ends()[1:] {
		if n := t.kinds[k]; n > 0 {
			s += ", " + render.Number(n) + " " + string(k)
		}
	}
	return s + " in " + render.Duration(took)
}

// oneLine is the end of an error, which may hold lines of output.
func oneLine(err error) string {
	if err == nil {
		return "no reason given"
	}
	return render.Text([]byte(err.Error()), 300)
}
