package main

import (
	_ "embed" // of the licences
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
)

// licenses are those of the modules that are linked: see `make licenses`.
//
//go:embed licenses.txt
var licenses string

func (a *app) versionCommand() *cobra.Command {
	var legal bool
	cmd := &cobra.Command{
		Use: "version", Short: "Version of this program", Args: cobra.NoArgs,
		Long:    "Print the version of this program, or the licences of what it is made of.",
		Example: "  norn version -o json\n  norn version --licenses",
		RunE: func(*cobra.Command, []string) error {
			if legal {
				_, err := io.WriteString(a.Out, licenses)
				return err
			}
			str := jsonform.String
			protocol := fmt.Sprintf("%d-%d", proto.MinVersion, proto.MaxVersion)
			v := jsonform.Object(
				jsonform.Field{Name: "version", Value: str(version)}, jsonform.Field{Name: "commit", Value: str(commit)},
				jsonform.Field{Name: "go_version", Value: str(runtime.Version())},
				jsonform.Field{Name: "platform", Value: str(runtime.GOOS + "/" + runtime.GOARCH)},
				jsonform.Field{Name: "protocol", Value: str(protocol)},
			)
			return a.Writer().Object(v, func(w io.Writer) {
				fmt.Fprintf(w, "norn %s (commit %s, %s, %s/%s, protocol %s)\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, protocol)
			})
		},
	}
	cmd.Flags().BoolVar(&legal, "licenses", false, "print the licences of this program and of all that is linked into it")
	return cmd
}
