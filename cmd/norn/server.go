package main

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/serve"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto/jsonform"
)

// lostLines is what log.lost means.
const lostLines = "whoever reads this log did not for a while, or its disk was full: these lines are gone"

const serverHelp = `Run a node. A first start with an empty data directory makes a cluster of one.

Every flag is also a key of the file of --config and an environment variable
(--max-payload: max-payload, NORN_SERVER_MAX_PAYLOAD). A flag beats the
environment, which beats the file; norn.example.yaml explains every setting.

SIGINT, SIGTERM or SIGHUP stops it: answers on their way are delivered. A second one
cuts connections. What was acknowledged is on disk either way. Lines of the log that
nobody reads are lost and counted (norn_log_lines_lost_total); the server goes on.

Exit codes: 0 it was told to stop, or has left its cluster; 1 it could not start (a
port in use, a directory of another cluster); 64 the command line or the configuration
is wrong, where all other commands say 2: with 2 end a panic and SIGQUIT, after which
it is to be started again; 70 its disk has failed, or what is on it is damaged.

Under systemd (Type=notify) it says when its ports are open, that it lives, and that it
stops; examples/server has a unit.`

func (a *app) server() *cobra.Command {
	cmd := &cobra.Command{
		Use: "server", Short: "Run a node", Args: cobra.NoArgs,
		Long: serverHelp,
		Example: `  norn server
  norn server --data /var/lib/norn --listen 0.0.0.0:7711 --auth-token-file token
  norn server --config norn.yaml --print-config`,
	}
	f := cmd.Flags()
	f.SortFlags = false
	file := f.String("config", "", "YAML `file` with any of these settings")
	print := f.Bool("print-config", false, "print the configuration that counts, as YAML or as -o says, and exit")
	settings := config.Default().Settings()
	for _, s := range settings {
		flag := f.VarPF(s, s.Name, "", s.Usage)
		if s.IsBool() {
			flag.NoOptDefVal = "true"
		}
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		src := config.Sources{File: *file, Environ: a.Environ, Flags: make(map[string]string)}
		for _, s := range settings {
			if f.Changed(s.Name) {
				src.Flags[s.Name] = s.String()
			}
		}
		cfg, err := config.Load(src)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		if *print {
			return a.printConfig(cfg)
		}
		var log *slog.Logger
		lines := a.Daemon(func(lost uint64) { log.Warn("log.lost", "lines", lost, "meaning", lostLines) })
		log = serve.NewLogger(a.ErrOut, cfg)
		for _, name := range config.UnknownEnv(a.Environ) {
			log.Warn("config.unknown_env", "variable", name)
		}
		defer reapAsFirst(nil)()
		ctx, now, done := cli.TwoSignals(cmd.Context())
		defer done()
		manager := newNotifier(a.Environ)
		defer manager.close()
		var signs sync.WaitGroup
		living, ended := context.WithCancel(context.Background())
		manager.live(living, &signs)
		err = serve.Run(ctx, cfg, serve.Options{Version: version, Logger: log, Now: now, Notify: manager.tell, LinesLost: lines.Lost, AuditTo: a.ErrOut})
		ended()
		signs.Wait()
		if errors.Is(err, node.ErrDamaged) { // the log has it, in its own format
			return cli.Reported{Code: cli.ExitDamaged}
		}
		if errors.Is(err, serve.ErrSettings) {
			return cli.UsageError{Err: err}
		}
		return err
	}
	return cmd
}

// printConfig prints all settings, as a file that --config takes whatever the
// format. People get YAML.
func (a *app) printConfig(cfg *config.Config) error {
	b, err := cfg.YAML()
	if err != nil {
		return err
	}
	if a.Format == render.Table || a.Format == render.YAML {
		_, err = a.Out.Write(b)
		return err
	}
	v := jsonform.Object()
	for _, s := range cfg.Settings() {
		v = v.With(s.Name, settingForm(s))
	}
	return a.Writer().Object(v, nil)
}

// settingForm is the value of a setting: numbers as such, and what has a unit as
// text.
func settingForm(s config.Setting) jsonform.Value {
	n, err := strconv.ParseFloat(s.String(), 64)
	switch {
	case s.IsBool():
		return jsonform.Bool(s.String() == "true")
	case (s.Type() == "int" || s.Type() == "float") && err == nil:
		return jsonform.Number(n)
	}
	return jsonform.String(s.String())
}
