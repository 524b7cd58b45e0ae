package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
)

// completeNodes offers the names of nodes for the first arguments, without
// those that stand there already; nothing when no server answers.
func (k clusterCommands) completeNodes(most int) cli.Completion {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := slices.DeleteFunc(k.names(cmd), func(n string) bool { return slices.Contains(args, n) })
		return cli.LastOf(names, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// names asks the server for the names of all nodes. Whatever goes wrong, there
// are none: a shell has no place for errors.
func (k clusterCommands) names(cmd *cobra.Command) (out []string) {
	if k.Prepare(cmd) != nil { // flags and environment as for the command itself
		return nil
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, cli.CompletionTime)
	defer cancel()
	_ = k.With(ctx, func(c *client.Client) error {
		s, err := c.Status(ctx)
		for _, n := range sortedNodes(s.GetNodes()) {
			out = append(out, n.GetName())
		}
		return err
	})
	return slices.Compact(out)
}
