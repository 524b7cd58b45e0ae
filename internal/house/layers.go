package house

import (
	"slices"
	"strconv"
	"strings"
)

// Row is one line of the import table: a directory with everything below it,
// unless a longer row names that.
type Row struct {
	Dir   string
	Layer int
	// Pure packages hold protocols and values: see the rule [Pure].
	Pure bool
	// Never lists directories of ours that the package may not import although
	// their layer would allow it.
	Never []string
	// Closed packages import of ours only what Only lists.
	Closed bool
	Only   []string
	// Why is the reason, for whoever runs into the rule.
	Why string
}

// machines are the protocol state machines. What they speak, store or travel
// through must not know them.
var machines = []string{"election", "claim", "antientropy", "session", "vnode", "register", "node"}

// mutants is the package of switches that leave out one rule each, for tests of
// tests. A closed package may import it too.
const mutants = "internal/mutant"

// Rows is the import table. A package imports from layers below its own and
// from its own layer, never upward, and never what its row forbids.
func Rows() []Row {
	return append(append(harm(), partitions()...), []Row{
		{Dir: "clock", Layer: 0, Pure: true, Closed: true, Why: "time is a value; whoever computes with leases starts here"},
		{Dir: "clock/offset", Layer: 1, Pure: true, Closed: true, Only: []string{"clock", "quorum"}, Why: "what clocks are good for follows from four times of an exchange and a cohort"},
		{Dir: "id", Layer: 0, Pure: true, Closed: true, Why: "IDs are 20 bytes and know nothing of what they name"},
		{Dir: "crdt", Layer: 1, Pure: true, Closed: true, Only: []string{"clock", "id"}, Why: "the join of facts must not depend on where they live or how they travel"},
		{Dir: "ring", Layer: 1, Pure: true, Closed: true, Only: []string{"clock", "id"}, Why: "placement is a function of members and partitions, not of tasks"},
		{Dir: "quorum", Layer: 1, Pure: true, Closed: true, Why: "there is one definition of majority, and it counts and does nothing else"},
		{Dir: "internal/portion", Layer: 1, Pure: true, Closed: true, Why: "what one may have of what all share is one rule, whatever is shared"},
		{Dir: "internal/secrets", Layer: 1, Closed: true, Why: "what lets somebody in is compared in one place; impure, because it is files"},
		{Dir: "internal/seldom", Layer: 1, Closed: true, Why: "a line of a log that strangers cause; impure, because it waits"},
		{Dir: "internal/memory", Layer: 1, Closed: true, Why: "what a process may have is read in one place; impure, because it is files of the system"},
		{Dir: "internal/names", Layer: 1, Closed: true, Why: "one place remembers what names led to; impure, because it asks a network"},
		{Dir: "internal/viaproxy", Layer: 1, Closed: true, Only: []string{"internal/seldom"}, Why: "what proxies say of who connects is believed in one place; impure, because it is sockets"},
		{Dir: "internal/jwts", Layer: 1, Closed: true, Only: []string{"internal/seldom"}, Why: "which JWT is good is judged in one place, by a library; impure, because keys are files and a network"},
		{Dir: "internal/logins", Layer: 1, Closed: true, Only: []string{"internal/seldom"}, Why: "all ports count and slow failed logins in one place; impure, because it waits"},
		{Dir: "proto", Layer: 2, Pure: true, Closed: true, Only: []string{"clock", "id"}, Why: "the words on the wire outlive the machines that use them; facts travel as crdt's bytes"},
		{Dir: "election", Layer: 3, Pure: true, Never: []string{"claim", "antientropy"}, Why: "an election moves claims as a set of bytes it does not judge"},
		{Dir: "election/model", Layer: 3, Pure: true, Closed: true, Only: []string{"quorum"}, Why: "the model is the protocol written down a second time: it shares no code with the first"},
		{Dir: "claim", Layer: 3, Pure: true, Never: []string{"election", "antientropy"}, Why: "the claim table is told its epoch, it does not ask for it"},
		{Dir: "antientropy", Layer: 3, Pure: true, Why: "an exchange compares whatever a Replica holds"},
		{Dir: "schedule", Layer: 3, Pure: true, Never: machines, Why: "the next instant of a schedule is a function of time"},
		{Dir: "session", Layer: 3, Pure: true, Never: []string{"election", "claim", "antientropy"}, Why: "workers import it too: it brings only the rules both sides share"},
		{Dir: "store", Layer: 3, Never: machines, Why: "a store keeps what it is given; impure, because Pebble is files and goroutines"},
		{Dir: "wal", Layer: 3, Closed: true, Why: "a log keeps records whatever is in them; impure, because it is files"},
		{Dir: "internal/objects", Layer: 3, Closed: true, Why: "a place for bytes under names knows nothing of what they are; impure, because it is files and a network"},
		{Dir: "backup", Layer: 3, Pure: true, Closed: true, Only: []string{"clock", "crdt", "id"}, Why: "a backup outlives the machines that filled it; nodes, clients and tools read the same form"},
		{Dir: "backup/job", Layer: 7, Closed: true, Only: []string{"backup", "client", "crdt", "id", "internal/objects", "proto", "register/snapshots", "ring"}, Why: "it takes and restores backups over the client port; impure, because it is places and a network"},
		{Dir: "archive", Layer: 3, Never: machines, Why: "an archive outlives the machines that filled it; impure, because it is files"},
		{Dir: "register", Layer: 4, Pure: true, Never: []string{"vnode"}, Why: "the cells must be readable while every partition is down"},
		{Dir: "register/raftnode", Layer: 4, Never: []string{"vnode"}, Why: "it runs a member of the register's group; impure, because it is a goroutine that waits for the disk"},
		{Dir: "register/snapshots", Layer: 4, Never: []string{"vnode"}, Why: "a copy of the register in a second place; impure, because places are"},
		{Dir: "register/registertest", Layer: 4, Never: []string{"vnode"}, Why: "one suite for every register; impure, because it asks from many goroutines at a time"},
		{Dir: "placement", Layer: 4, Pure: true, Never: []string{"vnode", "register/raftnode", "transport"}, Why: "who holds what follows from the register's state alone, whichever register it is"},
		{Dir: "transport", Layer: 4, Never: machines, Why: "frames carry bytes; impure, because sockets are"},
		{Dir: "node/guard", Layer: 4, Pure: true, Closed: true, Only: []string{"id", "proto"}, Why: "who may do what is a function of rules and of the request"},
		{Dir: "node/guard/rights", Layer: 4, Pure: true, Closed: true, Only: []string{"proto", "register", "node/guard"}, Why: "roles and tokens are read in one place, by who lets in and by who launches"},
		{Dir: "node/access", Layer: 5, Closed: true, Only: []string{"proto", "register", "node/guard", "node/guard/rights", "internal/jwts", "internal/logins", "internal/secrets", "internal/seldom"}, Why: "all ports ask in one place who comes and what they may; impure, because it is files and logs"},
		{Dir: "node/core/quota", Layer: 5, Pure: true, Closed: true, Only: []string{"crdt", "proto", "register", "ring", "node/guard", "vnode", "vnode/tally"}, Why: "what a tenant may use is counted and judged apart from what it is used for"},
		{Dir: "node/core", Layer: 5, Pure: true, Never: []string{"transport"}, Why: "the simulator drives this very code, without sockets"},
		{Dir: "node/held", Layer: 4, Closed: true, Only: []string{"store"}, Why: "snapshots for reads that go on know nothing of what is read; impure, because it is locks and timers"},
		{Dir: "node", Layer: 6, Why: "it runs a core; it serves programs it does not know"},
		{Dir: "node/metrics", Layer: 6, Closed: true, Only: []string{"node/core", "node/peer", "schedule"}, Why: "numbers are read when scrapes come, beside the loop; impure, because it is clocks and logs"},
		{Dir: "node/queuestats", Layer: 6, Closed: true, Only: []string{"node/core", "node/core/quota", "proto"}, Why: "what was decided is counted beside the loop, and nothing waits for it; impure, because scrapes come when they want"},
		{Dir: "node/attention", Layer: 6, Closed: true, Only: []string{"proto"}, Why: "what needs somebody follows from what the cluster answers, whoever asks; impure, because it waits for the answers"},
		{Dir: "node/peer", Layer: 6, Never: []string{"claim", "election", "session", "store", "vnode"}, Why: "it carries what nodes say to each other and does not judge it; impure, because sockets are"},
		{Dir: "client", Layer: 7, Closed: true, Only: []string{"clock", "id", "proto", "transport", "session"}, Why: "a program that imports the client must not link the server"},
		{Dir: "client/worker", Layer: 7, Closed: true, Only: []string{"clock", "id", "proto", "transport", "session", "client"}, Why: "a program that imports the worker SDK must not link the server"},
		{Dir: "client/outbox", Layer: 7, Closed: true, Only: []string{"clock", "id", "proto", "transport", "session", "client"}, Why: "a program that imports the outbox must link neither the server nor a database driver"},
		{Dir: "web", Layer: 7, Never: []string{"vnode", "store"}, Why: "pages see the node through the small Backend interface only"},
		{Dir: "client/norntest", Layer: 8, Why: "an in-process server for the tests of users"},
		{Dir: "internal/liar", Layer: 7, Closed: true, Only: []string{"proto", "transport"}, Why: "a server that lies knows frames and nothing else; impure, because it is sockets"},
		{Dir: "clients", Layer: 8, Closed: true, Only: []string{"client", "client/worker", "id", "internal/liar", "proto", "ring"}, Why: "the list of what clients do uses the one in Go as its users do"},
		{Dir: "cmd", Layer: 8, Why: "flags, wiring, output"},
		{Dir: "bench", Layer: 8, Why: "load generator and scenarios"},
		{Dir: "examples", Layer: 8, Closed: true, Only: []string{"client", "client/worker", "id"}, Why: "an example shows what a user can import"},
		{Dir: "examples/go/shop", Layer: 8, Closed: true, Only: []string{"client", "client/worker", "client/outbox", "id"}, Why: "a service with an outbox imports that, too"},
		{Dir: "examples/pages", Layer: 8, Closed: true, Only: []string{"client", "client/worker", "client/norntest", "id", "proto"}, Why: "the code that pages show is what a user can import, and its tests"},
		{Dir: mutants, Layer: 0, Closed: true, Why: "a switch that is off in every program that is shipped; whatever has a rule to leave out may import it"},
		{Dir: "packaging", Layer: 8, Closed: true, Why: "a release is made of the built program; a module of its own, so that users get none of its tools"},
		{Dir: "site", Layer: 8, Closed: true, Why: "it makes a site of the pages; impure, because it is files"},
		{Dir: "internal/reference", Layer: 8, Closed: true, Only: []string{"node"}, Why: "pages are made from the source; impure, because it is files"},
		{Dir: "internal/house", Layer: 8, Closed: true, Why: "the rules judge the code, they do not use it"},
	}...)
}

// partitions are the rows of vnode: one partition on one node, and what it is made of.
func partitions() []Row {
	return []Row{
		{Dir: "vnode/tally", Layer: 4, Pure: true, Closed: true, Only: []string{"crdt"}, Why: "what is counted knows nothing of where it is"},
		{Dir: "vnode/record", Layer: 4, Pure: true, Closed: true, Only: []string{"claim", "vnode/tally"}, Why: "the stored form of a queue knows nothing of who writes it"},
		{Dir: "vnode/index", Layer: 4, Pure: true, Closed: true, Only: []string{"claim", "crdt", "id", "ring", "store", "vnode/record", "vnode/tally"}, Why: "where a task is found by its state knows nothing of who puts it there"},
		{Dir: "vnode/recent", Layer: 4, Pure: true, Closed: true, Only: []string{"id"}, Why: "a filter over IDs knows nothing of what they name"},
		{Dir: "vnode/audit", Layer: 4, Pure: true, Closed: true, Only: []string{"antientropy", "claim", "crdt", "id", "ring", "store", "vnode", "vnode/index", "vnode/record"}, Why: "what is stored beside the facts is computed a second time, by code that no server runs"},
		{Dir: "vnode", Layer: 4, Pure: true, Why: "one partition on one node; it is told of the cluster"},
	}
}

// simulated are the parts of a simulated run above what they share, lowest first.
var simulated = []string{"jepsen/sim/nodes", "jepsen/sim/clients", "jepsen/sim/faults", "jepsen/sim/checks", "jepsen/sim/mutants"}

// harm are the rows of what does harm: of jepsen/sim what its runs are made of, and jepsen/lab
// from what is asked of the machine up to the verdict.
func harm() []Row {
	return []Row{
		{Dir: "jepsen", Layer: 8, Why: "simulator, laboratory and checkers drive everything"},
		{Dir: "jepsen/sim/world", Layer: 8, Closed: true, Only: []string{"clock"}, Why: "virtual time and chance know nothing of what happens in them"},
		{Dir: "jepsen/sim/stats", Layer: 8, Closed: true, Why: "what happened is counted apart from what makes it happen"},
		{Dir: "jepsen/sim/plan", Layer: 8, Closed: true, Only: []string{"jepsen/sim/world", "proto"}, Why: "what a seed draws is drawn before there is a cluster"},
		{Dir: "jepsen/sim/disk", Layer: 8, Closed: true, Only: []string{"store"}, Why: "a disk keeps what it is given, whoever gives it"},
		{Dir: "jepsen/sim/digest", Layer: 8, Closed: true, Only: []string{"node/core", "store"}, Why: "it sees values of any kind, not names"},
		{Dir: "jepsen/sim/witness", Layer: 8, Why: "it sees a cluster through a small interface, whoever runs it"},
		{Dir: "jepsen/sim/run", Layer: 8, Never: append(slices.Clone(simulated), "jepsen/sim/witness", "node"), Why: "what all of a run share knows neither nodes nor clients"},
		{Dir: "jepsen/sim/nodes", Layer: 8, Never: simulated[1:], Why: "nodes do not know who uses them, what goes wrong, or what they are held to"},
		{Dir: "jepsen/sim/clients", Layer: 8, Never: simulated[2:], Why: "clients do not know what goes wrong"},
		{Dir: "jepsen/sim/faults", Layer: 8, Never: simulated[3:], Why: "who does harm does not judge what came of it"},
		{Dir: "jepsen/sim/checks", Layer: 8, Never: append(slices.Clone(simulated[4:]), "jepsen/sim/faults"), Why: "what a run is held to does not depend on what went wrong"},
		{Dir: "jepsen/sim/mutants", Layer: 8, Never: simulated[1:4], Why: "a node that is wrong on purpose is one with hooks, whoever runs it"},
		{Dir: "jepsen/sim/convert", Layer: 8, Closed: true, Only: []string{"clock", "id", "proto", "jepsen"}, Why: "a request has one form in a history, whoever sends it"},
		{Dir: "jepsen/lab/machine", Layer: 8, Closed: true, Why: "what a machine allows is asked in one place; impure, because it runs programs of the system"},
		{Dir: "jepsen/lab/network", Layer: 8, Closed: true, Only: []string{"jepsen/lab/machine"}, Why: "links carry bytes of programs that they do not know"},
		{Dir: "jepsen/lab/storage", Layer: 8, Closed: true, Only: []string{"jepsen/lab/machine"}, Why: "disks fail whoever uses them"},
		{Dir: "jepsen/lab/record", Layer: 8, Closed: true, Only: []string{"client", "id", "proto", "jepsen"}, Why: "what clients saw is written down by who judges nothing"},
		{Dir: "jepsen/lab/cluster", Layer: 8, Never: []string{"jepsen/lab/workloads", "jepsen/lab/faults", "jepsen/lab/verdict"}, Why: "nodes run, whatever is done with them"},
		{Dir: "jepsen/lab/workloads", Layer: 8, Never: []string{"jepsen/lab/faults", "jepsen/lab/verdict"}, Why: "clients do not know what goes wrong"},
		{Dir: "jepsen/lab/faults", Layer: 8, Never: []string{"jepsen/lab/verdict"}, Why: "who does harm does not judge what came of it"},
		{Dir: "jepsen/lab/verdict", Layer: 8, Why: "a run is judged by what is written down of it"},
	}
}

// rowOf finds the longest row that names dir or a directory above it.
func rowOf(rows []Row, dir string) (Row, bool) {
	best, found := Row{}, false
	for _, r := range rows {
		if under(dir, r.Dir) && (!found || len(r.Dir) > len(best.Dir)) {
			best, found = r, true
		}
	}
	return best, found
}

// Imports checks the import table. Tests may import anything: to see a client
// at work takes a server.
func Imports(t *Tree) []Problem {
	var out []Problem
	rows, missing := Rows(), map[string]bool{}
	for _, f := range t.Go(false) {
		from, ok := rowOf(rows, f.Dir())
		if !ok {
			if !missing[f.Dir()] {
				p := t.at(f, f.Syntax.Package, "imports", "directory %s has no row in the import table", f.Dir())
				p.Why = "a package without a layer is where the layers begin to leak"
				p.Do = "put it into a package of the table, or add a Row with its layer and reason to internal/house/layers.go"
				out = append(out, p)
			}
			missing[f.Dir()] = true
			continue
		}
		for _, s := range f.Syntax.Imports {
			ip, err := strconv.Unquote(s.Path.Value)
			dir, ours := strings.CutPrefix(ip, Module+"/")
			if err != nil || !ours {
				continue
			}
			if why := refusal(rows, from, dir); why != "" {
				p := t.at(f, s.Pos(), "imports", "%s (layer %d) imports %s", f.Dir(), from.Layer, dir)
				p.Why = why + "; " + from.Dir + ": " + from.Why
				p.Do = "let the lower package define a small interface or value, and hand it in from above"
				out = append(out, p)
			}
		}
	}
	return out
}

// refusal says why a package of row from may not import dir, "" when it may.
func refusal(rows []Row, from Row, dir string) string {
	to, ok := rowOf(rows, dir)
	switch {
	case !ok || to.Dir == from.Dir:
		return "" // an unknown directory is reported where it is
	case to.Dir == mutants && under(from.Dir, "node"):
		return "what the hunt leaves out of a node is a field of a Policy, which package jepsen/hunt/policies sets"
	case to.Layer > from.Layer:
		return dir + " is above it (layer " + strconv.Itoa(to.Layer) + ")"
	case from.Closed && to.Dir != mutants && !slices.Contains(from.Only, to.Dir):
		return "of ours it may import only [" + strings.Join(from.Only, " ") + "]"
	case slices.ContainsFunc(from.Never, func(n string) bool { return under(dir, n) }):
		return "it never imports " + to.Dir
	}
	return ""
}
