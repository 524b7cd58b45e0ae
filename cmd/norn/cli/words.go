package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-dev/norn/node/config"
)

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
		_, ownWords := cmd.Annotations[WordsEndFlags]
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

// WordsEndFlags is an annotation of commands whose first word ends their flags.
const WordsEndFlags = "norn-words-end-flags"

// Group makes a command that only has commands: without one it shows its help,
// an unknown one is an error.
func Group(cmd *cobra.Command) *cobra.Command {
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

// AddUsage has every command that is given too few or too many words say which
// it takes.
func AddUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		AddUsage(c)
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

// FlagErrors has mistakes in flags say what to write instead.
func FlagErrors(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return cmd.Args(cmd, words) // it is another command's flag, and there is no such command
		}
		return flagError(nearestFlag(cmd, err))
	})
}

// AddExamples completes what cobra makes by itself.
func AddExamples(root *cobra.Command) {
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
					return UsageError{err}
				}
				show(cmd, args)
				return nil
			}
		case "completion":
			Group(c) // or an unknown shell would get the help for a script
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
