package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/daemonlog"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/internal/secrets"
)

// App is one run of the program: where it reads and writes, and the global
// flags.
type App struct {
	In          io.Reader
	Out, ErrOut io.Writer
	Environ     []string
	OutTerminal bool
	ErrTerminal bool

	// Version is that of the program.
	Version string

	Addrs   []string
	Output  string
	Timeout time.Duration
	// timeoutGiven: by flag or environment
	timeoutGiven  bool
	authToken     string
	authTokenFile string
	clusterID     string
	tlsCA         string
	tlsCert       string
	tlsKey        string
	serverName    string
	NoColor       bool
	Quiet         bool

	Format  render.Format
	started bool // the command line made sense; errors are no longer about it
}

// Run runs one command of the program and returns the exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.In)
	help := &errWriter{w: a.Out}
	root.SetOut(help)
	root.SetErr(a.ErrOut)
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

// Flags adds the global flags.
func (a *App) Flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringSliceVar(&a.Addrs, "addr", []string{"127.0.0.1:7711"}, "client `address`es of nodes, host:port[,host:port…]; a number is a port of this machine")
	f.StringVarP(&a.Output, "output", "o", "table", "output `format`: table, json, jsonl or yaml")
	f.DurationVar(&a.Timeout, "timeout", 30*time.Second, "for one call, in addition to any wait it asks for; at a terminal 2s, unless given, where all addresses refuse the connection")
	f.StringVar(&a.authToken, "auth-token", "", "`token` for the server (better in --auth-token-file, or NORN_AUTH_TOKEN)")
	f.StringVar(&a.authTokenFile, "auth-token-file", "", "the first line of this `file` is the token; read again for each connection")
	f.StringVar(&a.clusterID, "cluster-id", "", "expect the cluster with this `UUID` (norn cluster status): another one is refused, before the token is sent")
	f.StringVar(&a.tlsCA, "tls-ca", "", "speak TLS, and trust the certificates in this PEM `file`")
	f.StringVar(&a.tlsCert, "tls-cert", "", "speak TLS, and show the certificate in this PEM `file`")
	f.StringVar(&a.tlsKey, "tls-key", "", "private key of --tls-cert, PEM `file`")
	f.StringVar(&a.serverName, "tls-server-name", "", "speak TLS, and expect this `name` in the server's certificate")
	f.BoolVar(&a.NoColor, "no-color", false, "no colours in tables")
	f.BoolVar(&a.Quiet, "quiet", false, "no progress and no notes on standard error")
}

// Prepare reads the environment for flags that were not given.
func (a *App) Prepare(cmd *cobra.Command) error {
	env := make(map[string]string)
	for _, v := range a.Environ {
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
	if env["NO_COLOR"] != "" || env["TERM"] == "dumb" || !a.OutTerminal {
		a.NoColor = true
	}
	var err error
	if a.Format, err = render.ParseFormat(a.Output); err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	if a.Timeout <= 0 {
		return fmt.Errorf("--timeout: %s is not over zero", a.Timeout)
	}
	a.started = true
	return nil
}

// impatience is how long a person at a terminal, who has given no --timeout, waits where
// all addresses refuse the connection: no server was started there.
const impatience = 2 * time.Second

// Writer is where results go.
func (a *App) Writer() *render.Writer {
	return render.New(a.Out, a.Format, !a.NoColor).ForPerson(a.OutTerminal && !a.Quiet)
}

// Progress is nil when there is no terminal to show it on.
func (a *App) Progress(what string) *render.Progress {
	if a.Quiet || !a.ErrTerminal {
		return nil
	}
	return render.NewProgress(a.ErrOut, what)
}

// Daemon has this process outlive those who read what it writes, and says once they read
// again how many lines they have missed: by tell, or, where it is nil, by a note.
func (a *App) Daemon(tell func(lost uint64)) *daemonlog.Writer {
	daemonlog.Survive()
	if tell == nil {
		tell = func(lines uint64) { a.Note("%d lines before this one could not be written here", lines) }
	}
	w := daemonlog.New(a.ErrOut, tell)
	a.ErrOut = w
	return w
}

// Note tells people something that is not a result.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.ErrOut, "norn: "+format+"\n", args...)
	}
}

// Dial makes a client as the global flags say.
func (a *App) Dial(ctx context.Context) (*client.Client, error) { return a.DialNodes(ctx, a.Addrs) }

// OneByOne splits the lists among addresses.
func OneByOne(addrs []string) []string { return strings.Split(strings.Join(addrs, ","), ",") }

// DialNodes makes one for other addresses.
func (a *App) DialNodes(ctx context.Context, addrs []string) (*client.Client, error) {
	secure, err := a.tls()
	if err != nil {
		return nil, err
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	refused := time.Duration(0)
	if a.ErrTerminal && !a.timeoutGiven {
		refused = impatience
	}
	c, err := client.Dial(ctx, addrs, client.WithRefusedTimeout(refused), client.WithAuthTokenFrom(token), client.WithClusterID(a.clusterID),
		client.WithAgent("norn/"+a.Version), client.WithTimeout(a.Timeout), client.WithLogger(slog.New(retries{a, &sync.Once{}})), secure)
	switch {
	case errors.Is(err, client.ErrClusterID):
		return nil, Usage("--cluster-id: %w", err)
	case errors.Is(err, client.ErrInvalid):
		return nil, Usage("--addr: %w", err)
	}
	return c, err
}

// With dials, calls do and closes.
func (a *App) With(ctx context.Context, do func(*client.Client) error) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// tls has the client speak TLS with the files that the flags name, if they ask for it.
func (a *App) tls() (client.Option, error) {
	f := client.TLSFiles{CA: a.tlsCA, Cert: a.tlsCert, Key: a.tlsKey, ServerName: a.serverName}
	if f == (client.TLSFiles{}) {
		return client.WithTLS(nil), nil
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, Usage("--tls-cert and --tls-key: one is useless without the other")
	}
	if _, err := (client.TLSFiles{CA: f.CA}).Load(); err != nil {
		return nil, Usage("--tls-ca: %w", err)
	}
	if _, err := f.Load(); err != nil {
		return nil, Usage("--tls-cert, --tls-key: %w", err)
	}
	return client.WithTLSFiles(f), nil
}

// token gives what is sent to servers, each time anew where it is in a file.
func (a *App) token() (func() (string, error), error) {
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
		return nil, UsageError{err}
	}
	return read, nil
}

// NoteFew says that there are fewer copies than there are to be, once at a terminal, to who has enqueued tasks.
func (a *App) NoteFew(c *client.Client) {
	if i := c.Info(); i.Copies < i.Replicas && a.ErrTerminal {
		a.Note("%s", FewText(i.Copies, i.Replicas))
	}
}

// FewText says what it means that there are fewer copies than there are to be.
func FewText(now, meant int) string {
	return fmt.Sprintf("every task has %d of %d copies, because the cluster has fewer nodes: a quorum is a majority of %d", now, meant, now)
}
