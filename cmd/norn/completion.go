package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/terms"
)

// completions adds what shells complete beyond names of commands and flags.
func (q queueCommands) completions(root *cobra.Command) {
	fixed := map[string]cli.Completion{
		"queue":          q.completeQueues,
		"state":          cli.CompleteWords(terms.States()...),
		"filter":         completeFilter,
		"on-dep-failure": cli.CompleteWords("cancel", "run", "wait"),
		"write":          cli.CompleteWords("one", "quorum", "all"),
		"read":           cli.CompleteWords("one", "quorum", "all"),
	}
	_ = root.RegisterFlagCompletionFunc("output", cli.CompleteWords(string(render.Table), string(render.JSON), string(render.JSONL), string(render.YAML)))
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for name, complete := range fixed {
			if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, complete) // it is there, and has none yet
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root)
}

// completeFilter offers the terms of a filter, and states.
func completeFilter(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, name := range terms.FilterNames() {
		if strings.HasSuffix(name, "~") {
			words = append(words, name)
		} else if name != "state" && !strings.HasSuffix(name, ".") {
			words = append(words, name+"=")
		}
	}
	for _, s := range terms.States() {
		words = append(words, "state="+s)
	}
	return cli.LastOf(words, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeQueues offers the names of queues, nothing when no server answers.
func (q queueCommands) completeQueues(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return cli.LastOf(q.names(cmd), typed), cobra.ShellCompDirectiveNoFileComp
}

// completeOne offers the names of queues for the first argument.
func (q queueCommands) completeOne(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return q.completeQueues(cmd, args, typed)
}

// completeSet offers queues, then names of settings.
func (q queueCommands) completeSet(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return q.completeQueues(cmd, args, typed)
	}
	if value, ok := strings.CutPrefix(typed, "retention-policy="); ok {
		var out []string
		for _, w := range cli.LastOf([]string{"delete", "archive", "keep"}, value) {
			out = append(out, "retention-policy="+w)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, name := range terms.SettingNames() {
		words = append(words, name+"=")
	}
	return cli.LastOf(words, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// names asks the server for the names of all queues. Whatever goes wrong, there
// are none: a shell has no place for errors.
func (q queueCommands) names(cmd *cobra.Command) []string {
	if q.Prepare(cmd) != nil { // flags and environment as for the command itself
		return nil
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, cli.CompletionTime)
	defer cancel()
	var out []string
	_ = q.With(ctx, func(c *client.Client) error {
		queues, err := c.Queues().List(ctx)
		for _, found := range queues {
			out = append(out, found.GetName())
		}
		return err
	})
	return out
}
