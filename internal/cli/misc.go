package cli

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/barnabas-mq/barnabas/internal/config"
)

func (a App) versionCommand() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
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

func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Explain the broker's configuration"}
	c.AddCommand(&cobra.Command{
		Use:   "docs",
		Short: "Print every key with type, default and meaning, in Markdown",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return config.WriteDocs(c.OutOrStdout())
		},
	})
	return c
}
