package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/node/config"
)

// maxAnswer is how much of an answer is read.
const maxAnswer = 4 << 10

// Host is what the command needs of the program.
type Host struct {
	Out     io.Writer
	Environ []string
	Timeout *time.Duration
}

// Command gives `norn healthcheck`.
func Command(h Host) *cobra.Command {
	ready := false
	cmd := &cobra.Command{
		Use: "healthcheck [ADDR]", Short: "Ask a node's HTTP port whether the process lives", Args: cobra.MaximumNArgs(1),
		Long: `Ask the HTTP port of a node whether its process should be let live (/livez), for images and
scripts that have no curl. ADDR is http-listen of the node: NORN_SERVER_HTTP_LISTEN, or else
the default. It needs no token and no certificate.

Exit codes: 0 yes, 1 no, or no answer.`,
		Example: "  norn healthcheck\n  norn healthcheck --ready 10.0.0.1:7713",
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether the node serves (/readyz) instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := "/livez"
		if ready {
			path = "/readyz"
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), *h.Timeout)
		defer cancel()
		return ask(ctx, h.Out, "http://"+address(args, h.Environ)+path)
	}
	return cmd
}

// address is where the HTTP port is: as told, as the node's environment says, or the default.
func address(args, environ []string) string {
	addr := config.Default().HTTPListen
	for _, v := range environ {
		if set, ok := strings.CutPrefix(v, "NORN_SERVER_HTTP_LISTEN="); ok && set != "" {
			addr = set
		}
	}
	if len(args) > 0 {
		addr = args[0]
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = "", strings.TrimPrefix(addr, ":") // a port alone, as --addr takes it
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // whoever listens everywhere listens here
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// ask gets a page and fails unless it is a 200. No proxy is asked: the node is here.
func ask(ctx context.Context, out io.Writer, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return fmt.Errorf("the node does not answer: %v", err) //nolint:errorlint // exit 1, whatever it is: 2 and more mean other things to engines
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the node's answer ended early: %v", err) //nolint:errorlint // as above
	}
	said := strings.TrimSpace(string(text))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, said)
	}
	_, err = fmt.Fprintln(out, said)
	return err //nolint:wrapcheck // of the terminal
}
