package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/access"
	"github.com/norn-dev/norn/cmd/norn/backups"
	"github.com/norn-dev/norn/cmd/norn/daemonlog"
	"github.com/norn-dev/norn/cmd/norn/debug"
	"github.com/norn-dev/norn/cmd/norn/health"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/top"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/config"
)

// app is one run of the program: where it reads and writes, and the global
// flags.
type app struct {
	in          io.Reader
	out, errOut io.Writer
	environ     []string
	outTerminal bool
	errTerminal bool

	addrs   []string
	output  string
	timeout time.Duration
	// timeoutGiven: by flag or environment
	timeoutGiven  bool
	authToken     string
	authTokenFile string
	clusterID     string
	tlsCA         string
	tlsCert       string
	tlsKey        string
	serverName    string
	noColor       bool
	quiet         bool

	format  render.Format
	started bool // the command line made sense; errors are no longer about it
}

// run runs one command and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	help := &errWriter{w: a.out}
	root.SetOut(help)
	root.SetErr(a.errOut)
	if cmd, err := looseTruth(root, args); err != nil {
		return a.finish(cmd, err)
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && help.err != nil {
		a.started, err = true, help.err // the command line made sense
	}
	return a.finish(cmd, err)
}

// errWriter remembers that something could not be written: cobra does not tell of it
// where it writes help.
type errWriter struct {
	w   io.Writer
	err error
}

func (t *errWriter) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	if t.err == nil {
		t.err = err
	}
	return n, err
}

// looseTruth refuses true and false after a flag that takes them only with a =, as in
// --paused false: that would be --paused, and a word of its own, such as a payload.
func looseTruth(root *cobra.Command, args []string) (*cobra.Command, error) {
	cmd, rest, err := root.Find(args)
	if err != nil || len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return cmd, nil // it is told as that
	}
	for i := 0; i+1 < len(rest); i++ {
		word, next := rest[i], rest[i+1]
		flag := cmd.Flags().Lookup(strings.TrimPrefix(word, "--"))
		if !strings.HasPrefix(word, "--") {
			flag = nil
		}
		if len(word) == 2 && word[0] == '-' && word != "--" {
			flag = cmd.Flags().ShorthandLookup(word[1:])
		}
		_, ownWords := cmd.Annotations[wordsEndFlags]
		switch {
		case word == "--", ownWords && !strings.HasPrefix(word, "-"):
			return cmd, nil
		case flag == nil: // a word, or a flag with its value
		case flag.NoOptDefVal == "":
			i++
		case next == "true", next == "false":
			return cmd, fmt.Errorf("%s %s: write --%s=%s, or, where it is not about the flag, -- before it", word, next, flag.Name, next)
		}
	}
	return cmd, nil
}

// wordsEndFlags is an annotation of commands whose first word ends their flags.
const wordsEndFlags = "norn-words-end-flags"

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "norn",
		Short: "A distributed task queue",
		Long: `Norn is a distributed task queue: many machines accept work, many machines do
it, and no single one of them matters.

Exit codes: 0 ok, 1 failed, 2 usage (64 of norn server), 3 not found, 4 unavailable
(no quorum, no leader, no server), 5 conflict (already exists, claim lost, not in
this state), 6 overloaded.

Every global flag is also an environment variable: NORN_ADDR, NORN_OUTPUT,
NORN_TIMEOUT, NORN_AUTH_TOKEN_FILE, NORN_TLS_CA, …`,
		Example: `  norn server
  norn task enqueue -q mail 'hello'
  norn work -q mail -- sh -c 'cat; sleep 1'`,
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if strings.HasPrefix(cmd.Name(), cobra.ShellCompRequestCmd) {
				return nil // the command line to be completed is not read yet
			}
			return a.prepare(cmd)
		},
	}
	group(root)
	f := root.PersistentFlags()
	f.StringSliceVar(&a.addrs, "addr", []string{"127.0.0.1:7711"}, "client `address`es of nodes, host:port[,host:port…]; a number is a port of this machine")
	f.StringVarP(&a.output, "output", "o", "table", "output `format`: table, json, jsonl or yaml")
	f.DurationVar(&a.timeout, "timeout", 30*time.Second, "for one call, in addition to any wait it asks for; at a terminal 2s, unless given, where all addresses refuse the connection")
	f.StringVar(&a.authToken, "auth-token", "", "`token` for the server (better in --auth-token-file, or NORN_AUTH_TOKEN)")
	f.StringVar(&a.authTokenFile, "auth-token-file", "", "the first line of this `file` is the token; read again for each connection")
	f.StringVar(&a.clusterID, "cluster-id", "", "expect the cluster with this `UUID` (norn cluster status): another one is refused, before the token is sent")
	f.StringVar(&a.tlsCA, "tls-ca", "", "speak TLS, and trust the certificates in this PEM `file`")
	f.StringVar(&a.tlsCert, "tls-cert", "", "speak TLS, and show the certificate in this PEM `file`")
	f.StringVar(&a.tlsKey, "tls-key", "", "private key of --tls-cert, PEM `file`")
	f.StringVar(&a.serverName, "tls-server-name", "", "speak TLS, and expect this `name` in the server's certificate")
	f.BoolVar(&a.noColor, "no-color", false, "no colours in tables")
	f.BoolVar(&a.quiet, "quiet", false, "no progress and no notes on standard error")
	root.AddCommand(a.server(), devCommand{a}.command(), a.task(), queueCommands{a}.commands(), archiveCommands{a}.commands(), scheduleCommands{a}.commands(), workCommand{a}.command(), workerCommands{a}.commands(), clusterCommands{a}.commands(), access.Commands(access.Host{With: a.with, Dial: a.dialNodes, Writer: a.writer, Out: a.out, Note: a.note, Timeout: &a.timeout, Group: group, Usage: usage, Denied: reported{exitFailed}}), top.Command(a.topHost()), backupCommands(a), outboxCommands{a}.commands(), debug.Commands(debug.Host{Writer: a.writer, Group: group, Usage: usage}), a.bench(), a.demo(), health.Command(health.Host{Out: a.out, Environ: a.environ, Timeout: &a.timeout}), a.versionCommand())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return cmd.Args(cmd, words) // it is another command's flag, and there is no such command
		}
		return flagError(nearestFlag(cmd, err))
	})
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	addExamples(root)
	addUsage(root)
	queueCommands{a}.completions(root)
	return root
}

func backupCommands(a *app) *cobra.Command {
	return backups.Commands(backups.Host{
		With: a.with, Writer: a.writer, ErrOut: a.errOut, Note: a.note, Progress: a.progress, Timeout: &a.timeout, Version: version, Group: group,
		Usage: func(err error) error { return usageError{err} }, Existing: existing,
		Missing: func(text string) error {
			a.complain(text)
			return reported{exitNotFound}
		},
		Exit: func(err error) {
			fmt.Fprintln(a.errOut, "norn:", err)
			os.Exit(exitFailed)
		},
	})
}

// group makes a command that only has commands: without one it shows its help,
// an unknown one is an error.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		text := fmt.Sprintf("unknown command %q", cmd.CommandPath()+" "+args[0])
		cmd.SuggestionsMinimumDistance = 2
		if below := below(cmd, args[0]); below != "" {
			text += "; did you mean " + below + "?"
		} else if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += fmt.Sprintf("; did you mean %q?", cmd.CommandPath()+" "+config.Nearest(args[0], near))
		}
		return errors.New(text)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// below names the commands of that name that the commands of a group have.
func below(cmd *cobra.Command, name string) string {
	var found []string
	for _, c := range cmd.Commands() {
		for _, sub := range c.Commands() {
			if sub.Name() == name && !sub.Hidden {
				found = append(found, strconv.Quote(sub.CommandPath()))
			}
		}
	}
	return strings.Join(found, " or ")
}

// unitless is what package time says of a duration without a unit.
var unitless = regexp.MustCompile(`time: missing unit in duration "([^"]*)"$`)

// days is what it says of one in days, which have no unit there.
var days = regexp.MustCompile(`time: unknown unit "d" in duration "(\d{1,5})d"$`)

// flagError says what to write instead.
func flagError(err error) error {
	if m := days.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1]) // they are digits
		return fmt.Errorf("%sdays are written in hours: %dh", strings.TrimSuffix(err.Error(), m[0]), 24*n)
	}
	if m := unitless.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%sit has no unit; write %ss for seconds", strings.TrimSuffix(err.Error(), m[0]), m[1])
	}
	return err
}

// nearestFlag names the known flag that is most like an unknown one.
func nearestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err // of one letter, all are as near
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	name := unknown.GetSpecifiedName()
	near := config.Nearest(name, known)
	if near == "" || !config.Alike(name, near) {
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, near)
}

// addUsage has every command that is given too few or too many words say which
// it takes.
func addUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		addUsage(c)
	}
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil || !strings.Contains(err.Error(), "arg(s)") {
			return err
		}
		return fmt.Errorf("%w; it takes: %s", err, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
}

// addExamples completes what cobra makes by itself.
func addExamples(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Example = "  norn help task enqueue"
			show := c.Run
			c.RunE = func(cmd *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err == nil && found.HasSubCommands() {
					err = found.ValidateArgs(rest)
				}
				if err != nil {
					return usageError{err}
				}
				show(cmd, args)
				return nil
			}
		case "completion":
			group(c) // or an unknown shell would get the help for a script
			c.Example = "  source <(norn completion bash)\n  norn completion fish > ~/.config/fish/completions/norn.fish"
			for _, shell := range c.Commands() {
				shell.Example = map[string]string{
					"bash":       "  source <(norn completion bash)\n  norn completion bash > /etc/bash_completion.d/norn",
					"zsh":        "  source <(norn completion zsh)\n  norn completion zsh > \"${fpath[1]}/_norn\"",
					"fish":       "  norn completion fish | source\n  norn completion fish > ~/.config/fish/completions/norn.fish",
					"powershell": "  norn completion powershell | Out-String | Invoke-Expression",
				}[shell.Name()]
			}
		}
	}
}

// prepare reads the environment for flags that were not given.
func (a *app) prepare(cmd *cobra.Command) error {
	env := make(map[string]string)
	for _, v := range a.environ {
		if name, text, ok := strings.Cut(v, "="); ok {
			env[name] = text
		}
	}
	for _, name := range []string{"addr", "output", "timeout", "auth-token", "auth-token-file", "cluster-id", "tls-ca", "tls-cert", "tls-key", "tls-server-name", "no-color", "quiet"} {
		variable := "NORN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		flag := cmd.Root().PersistentFlags().Lookup(name)
		if text := env[variable]; text != "" && !flag.Changed {
			if err := flag.Value.Set(text); err != nil {
				return fmt.Errorf("environment variable %s: invalid value %q: %w", variable, text, err)
			}
		}
	}
	a.timeoutGiven = cmd.Root().PersistentFlags().Changed("timeout") || env["NORN_TIMEOUT"] != ""
	token, file := cmd.Root().PersistentFlags().Lookup("auth-token"), cmd.Root().PersistentFlags().Lookup("auth-token-file")
	switch {
	case token.Changed && file.Changed, !token.Changed && !file.Changed && a.authToken != "" && a.authTokenFile != "":
		return errors.New("--auth-token and --auth-token-file (NORN_AUTH_TOKEN, NORN_AUTH_TOKEN_FILE): one of them, not both")
	case file.Changed:
		a.authToken = ""
	case token.Changed:
		a.authTokenFile = ""
	}
	if env["NO_COLOR"] != "" || env["TERM"] == "dumb" || !a.outTerminal {
		a.noColor = true
	}
	var err error
	if a.format, err = render.ParseFormat(a.output); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if a.timeout <= 0 {
		return fmt.Errorf("--timeout: %s is not over zero", a.timeout)
	}
	a.started = true
	return nil
}

// impatience is how long a person at a terminal, who has given no --timeout, waits where
// all addresses refuse the connection: no server was started there.
const impatience = 2 * time.Second

// writer is where results go.
func (a *app) writer() *render.Writer {
	return render.New(a.out, a.format, !a.noColor).ForPerson(a.outTerminal && !a.quiet)
}

// topHost is what live views need.
func (a *app) topHost() top.Host {
	return top.Host{With: a.with, Writer: a.writer, In: a.in, Out: a.out, Timeout: &a.timeout, Usage: usage}
}

// progress is nil when there is no terminal to show it on.
func (a *app) progress(what string) *render.Progress {
	if a.quiet || !a.errTerminal {
		return nil
	}
	return render.NewProgress(a.errOut, what)
}

// daemon has this process outlive those who read what it writes, and says once they read
// again how many lines they have missed: by tell, or, where it is nil, by a note.
func (a *app) daemon(tell func(lost uint64)) *daemonlog.Writer {
	daemonlog.Survive()
	if tell == nil {
		tell = func(lines uint64) { a.note("%d lines before this one could not be written here", lines) }
	}
	w := daemonlog.New(a.errOut, tell)
	a.errOut = w
	return w
}

// note tells people something that is not a result.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.errOut, "norn: "+format+"\n", args...)
	}
}

// dial makes a client as the global flags say.
func (a *app) dial(ctx context.Context) (*client.Client, error) { return a.dialNodes(ctx, a.addrs) }

// oneByOne splits the lists among addresses.
func oneByOne(addrs []string) []string { return strings.Split(strings.Join(addrs, ","), ",") }

func (a *app) dialNodes(ctx context.Context, addrs []string) (*client.Client, error) {
	secure, err := a.tls()
	if err != nil {
		return nil, err
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	refused := time.Duration(0)
	if a.errTerminal && !a.timeoutGiven {
		refused = impatience
	}
	c, err := client.Dial(ctx, addrs, client.WithRefusedTimeout(refused), client.WithAuthTokenFrom(token), client.WithClusterID(a.clusterID),
		client.WithAgent("norn/"+version), client.WithTimeout(a.timeout), client.WithLogger(slog.New(retries{a, &sync.Once{}})), secure)
	switch {
	case errors.Is(err, client.ErrClusterID):
		return nil, usage("--cluster-id: %w", err)
	case errors.Is(err, client.ErrInvalid):
		return nil, usage("--addr: %w", err)
	}
	return c, err
}

// with dials, calls do and closes.
func (a *app) with(ctx context.Context, do func(*client.Client) error) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// tls has the client speak TLS with the files that the flags name, if they ask for it.
func (a *app) tls() (client.Option, error) {
	f := client.TLSFiles{CA: a.tlsCA, Cert: a.tlsCert, Key: a.tlsKey, ServerName: a.serverName}
	if f == (client.TLSFiles{}) {
		return client.WithTLS(nil), nil
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, usage("--tls-cert and --tls-key: one is useless without the other")
	}
	if _, err := (client.TLSFiles{CA: f.CA}).Load(); err != nil {
		return nil, usage("--tls-ca: %w", err)
	}
	if _, err := f.Load(); err != nil {
		return nil, usage("--tls-cert, --tls-key: %w", err)
	}
	return client.WithTLSFiles(f), nil
}

// token gives what is sent to servers, each time anew where it is in a file.
func (a *app) token() (func() (string, error), error) {
	if a.authTokenFile == "" {
		return func() (string, error) { return a.authToken, nil }, nil
	}
	read := func() (string, error) {
		all, err := secrets.Read(a.authTokenFile)
		if err != nil {
			return "", fmt.Errorf("--auth-token-file: %w", err)
		}
		return all.First(), nil
	}
	if _, err := read(); err != nil {
		return nil, usageError{err}
	}
	return read, nil
}
