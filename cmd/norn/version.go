package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Version of this program", Args: cobra.NoArgs,
		Example: "  norn version -o json",
		RunE: func(*cobra.Command, []string) error {
			str := jsonform.String
			protocol := fmt.Sprintf("%d-%d", proto.MinVersion, proto.MaxVersion)
			v := jsonform.Object(
				jsonform.Field{Name: "version", Value: str(version)}, jsonform.Field{Name: "commit", Value: str(commit)},
				jsonform.Field{Name: "go_version", Value: str(runtime.Version())},
				jsonform.Field{Name: "platform", Value: str(runtime.GOOS + "/" + runtime.GOARCH)},
				jsonform.Field{Name: "protocol", Value: str(protocol)},
			)
			return a.writer().Object(v, func(w io.Writer) {
				fmt.Fprintf(w, "norn %s (commit %s, %s, %s/%s, protocol %s)\n", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, protocol)
			})
		},
	}
}
