package reference

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Commands is the page of a program's commands: a table, then each with what its help says.
func Commands(root *cobra.Command) string {
	b := head("Commands", prose("For whoever types or scripts `norn`. The text is that of `norn COMMAND --help`. Global flags are at the end, and "+
		"[exit codes](errors.md#exit-codes) on the page of errors."))
	b.WriteString("| command | what it does |\n|---|---|\n")
	each(root, func(c *cobra.Command) {
		fmt.Fprintf(b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), cell(c.Short))
	})
	b.WriteByte('\n')
	each(root, func(c *cobra.Command) {
		fmt.Fprintf(b, "## %s\n\n%s.\n\n```text\n%s\n```\n\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."), help(c))
	})
	fmt.Fprintf(b, "## Global flags\n\n```text\n%s\n```\n", trimmed(root.PersistentFlags().FlagUsages()))
	return b.String()
}

// each calls look with each command that does something.
func each(c *cobra.Command, look func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	if !c.HasSubCommands() {
		look(c)
	} else if c.HasParent() && anyShown(c.NonInheritedFlags()) { // norn outbox does something besides
		look(c)
	}
	for _, sub := range c.Commands() {
		each(sub, look)
	}
}

// help is what a command says of itself, without its first line and the global flags.
func help(c *cobra.Command) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", c.UseLine())
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", trimmed(c.Long))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(c.Example, "\n"))
	}
	if flags := c.NonInheritedFlags(); anyShown(flags) {
		fmt.Fprintf(&b, "\nFlags:\n%s\n", trimmed(flags.FlagUsages()))
	}
	return trimmed(b.String())
}

func anyShown(f *pflag.FlagSet) bool {
	shown := false
	f.VisitAll(func(x *pflag.Flag) { shown = shown || !x.Hidden && x.Name != "help" })
	return shown
}

// trimmed is a text without blanks at the ends of its lines and empty lines at its end.
func trimmed(s string) string {
	var out []string
	for _, line := range strings.Split(s, "\n") {
		out = append(out, strings.TrimRight(line, " \t"))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}
