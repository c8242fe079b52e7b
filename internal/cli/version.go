package cli

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (a App) versionCommand() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  barnabas version",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v := struct {
				Version  string `json:"version"`
				Commit   string `json:"commit"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{a.Version, a.Commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return o.print(c.OutOrStdout(), v, func(t *table) {
				t.row("barnabas " + v.Version + " (commit " + v.Commit + ", " + v.Go + ", " + v.Platform + ")")
			})
		},
	}
	o.flag(c)
	return c
}
