package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/node/config"
)

const (
	maxDevNodes = 64
	devPorts    = 10 // between two nodes
)

// devOptions are the flags of `norn dev` that are not the servers'.
type devOptions struct {
	nodes, basePort int
	data            string
	verbose         bool
}

// check finds numbers that no cluster can have.
func (o devOptions) check() error {
	if o.nodes < 1 || o.nodes > maxDevNodes {
		return cli.Usage("--nodes: %d is not between 1 and %d", o.nodes, maxDevNodes)
	}
	if last := 65535 - devPorts*(o.nodes-1) - 2; o.basePort < 1 || o.basePort > last {
		return cli.Usage("--base-port: %d is not between 1 and %d, which leaves room for %d nodes", o.basePort, last, o.nodes)
	}
	return nil
}

// devCommand is `norn dev`.
type devCommand struct{ *app }

func (a devCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a local cluster", Args: cobra.NoArgs,
		Long: `Run a cluster of several nodes on this machine, each in a process of its own
(norn server), to develop against and to break. Node i, from n1 on, listens on
--base-port + 10*(i-1) for clients, on the next port for other nodes and on the one
after that for HTTP; the first is where every norn command looks by default. All
are on 127.0.0.1.

Prints a table of names, addresses and process IDs, then "ready" on a line of its
own once every node answers and every partition has its copies and the leader it
is to have. With -o json the table is printed when all that is so, and says so by
being there.

Without --data everything is in a temporary directory, which is removed at the
end. With it, each node's data is in DIR/n1, DIR/n2, …, and the next start goes on
from there; more nodes than before join the others. Logs are in DIR/n1/log and so
on; --verbose shows them too.

Every flag of norn server that is no address, name or directory goes to all nodes:
norn server --help lists them. Those that one tries first are listed below.

Ctrl-C or SIGTERM stops all nodes cleanly; a second one kills them. A node that
dies once the cluster is ready stays dead, and the others go on: try kill -9 PID.
The line that tells of it has the command that starts the node again. A node that
dies before that ends everything, with exit code 1. On Linux, nodes never outlive
this command.`,
		Example: `  norn dev
  norn dev --nodes 5 --data ./cluster --base-port 17711
  norn dev --eta 500ms --default-lease 5s --verbose
  norn dev & NORN_ADDR=127.0.0.1:7711,127.0.0.1:7721,127.0.0.1:7731 norn bench`,
	}
	f := cmd.Flags()
	f.SortFlags = false
	var o devOptions
	f.IntVar(&o.nodes, "nodes", 3, "how many `nodes`")
	f.StringVar(&o.data, "data", "", "keep the nodes' data below this `DIR` (default: a temporary one)")
	f.IntVar(&o.basePort, "base-port", 7711, "first `port` of the first node")
	f.BoolVar(&o.verbose, "verbose", false, "show the nodes' logs on standard error")
	file := f.String("config", "", "YAML `file` with settings for all nodes")
	var settings []config.Setting
	for _, s := range config.Default().Settings() {
		if slices.Contains(devOwn(), s.Name) {
			continue
		}
		settings = append(settings, s)
		flag := f.VarPF(s, s.Name, "", s.Usage)
		if s.IsBool() {
			flag.NoOptDefVal = "true"
		}
		flag.Hidden = !slices.Contains(devShown(), s.Name)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		given := make(map[string]string)
		for _, s := range settings {
			if f.Changed(s.Name) {
				given[s.Name] = s.String()
			}
		}
		return a.run(cmd.Context(), o, *file, given)
	}
	_ = cmd.MarkFlagDirname("data") // it is there
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// devOwn are the settings that differ from node to node.
func devOwn() []string {
	return []string{"data", "name", "listen", "peer-listen", "peer-advertise", "http-listen", "join"}
}

// devShown are the settings of servers that --help of `norn dev` lists: those that
// somebody who develops against a cluster tries.
func devShown() []string {
	return []string{"partitions", "replicas", "eta", "default-lease", "log-level", "auth-token-file"}
}

// devNode is one node of the plan.
type devNode struct {
	name, data         string
	listen, peer, http string
	join               []string
	args               []string // of the program
}

// plan says how each node is started. The settings of one of them are given
// too: what is wrong with them is found before anything happens.
func (a devCommand) plan(o devOptions, file string, given map[string]string) ([]devNode, *config.Config, error) {
	nodes := make([]devNode, o.nodes)
	for i := range nodes {
		n := &nodes[i]
		n.name = "n" + strconv.Itoa(i+1)
		n.data = filepath.Join(o.data, n.name)
		port := o.basePort + devPorts*i
		n.listen, n.peer, n.http = loopback(port), loopback(port+1), loopback(port+2)
	}
	joinDev(nodes)
	var cfg *config.Config
	for i := range nodes {
		n := &nodes[i]
		own := map[string]string{
			"data": n.data, "name": n.name, "listen": n.listen, "peer-listen": n.peer, "peer-advertise": "", "http-listen": n.http,
			"join": strings.Join(n.join, ","),
		}
		src := config.Sources{File: file, Environ: a.Environ, Flags: own}
		n.args = []string{"server"}
		if file != "" {
			n.args = append(n.args, "--config="+file)
		}
		for _, name := range devOwn() { // in the order of the documentation
			n.args = append(n.args, "--"+name+"="+own[name])
		}
		for _, s := range config.Default().Settings() {
			if text, ok := given[s.Name]; ok {
				src.Flags[s.Name] = text
				n.args = append(n.args, "--"+s.Name+"="+text)
			}
		}
		var err error
		if cfg, err = config.Load(src); err != nil {
			return nil, nil, cli.UsageError{Err: err}
		}
	}
	return nodes, cfg, nil
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// joinDev says whom each node joins: those that hold data. When none does, the
// first one makes the cluster and the others join it.
func joinDev(nodes []devNode) {
	var there []string
	for _, n := range nodes {
		if _, err := os.Stat(filepath.Join(n.data, "IDENTITY")); err == nil {
			there = append(there, n.peer)
		}
	}
	if there == nil {
		there = []string{nodes[0].peer}
	}
	for i := range nodes {
		n := &nodes[i]
		n.join = slices.DeleteFunc(slices.Clone(there), func(peer string) bool { return peer == n.peer })
	}
}

// leftOut names the nodes whose data is there and that are not started.
func leftOut(dir string, nodes int) []string {
	var out []string
	for i := nodes + 1; i <= maxDevNodes; i++ {
		name := "n" + strconv.Itoa(i)
		if _, err := os.Stat(filepath.Join(dir, name, "IDENTITY")); err == nil {
			out = append(out, name)
		}
	}
	return out
}

// shellLine is a command as one would type it.
func shellLine(args []string) string {
	quoted := make([]string, len(args))
	for i, s := range args {
		if quoted[i] = s; s == "" || strings.ContainsFunc(s, unsafeInShell) {
			quoted[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func unsafeInShell(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:,+@%", r))
}

// checkPorts finds out whether all ports are free.
func checkPorts(nodes []devNode) error {
	var taken []string
	for _, n := range nodes {
		for _, p := range []struct{ network, address, what string }{
			{"tcp", n.listen, "clients"}, {"tcp", n.peer, "other nodes"}, {"udp", n.peer, "other nodes, UDP"}, {"tcp", n.http, "HTTP"},
		} {
			if err := tryPort(p.network, p.address); err != nil {
				taken = append(taken, fmt.Sprintf("%s: port for %s: %v", n.name, p.what, err))
			}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return fmt.Errorf("%s\nnothing was started; choose other ports with --base-port", strings.Join(taken, "\n"))
}
