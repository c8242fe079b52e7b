package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is the -o flag: table, json or yaml.
type output string

func (o *output) String() string { return string(*o) }

// Type names the flag's value in the help.
func (o *output) Type() string { return "format" }

// Set refuses what is no format.
func (o *output) Set(s string) error {
	switch s {
	case "table", "json", "yaml":
		*o = output(s)
		return nil
	}
	return fmt.Errorf("the format must be table, json or yaml")
}

func (o *output) flag(c *cobra.Command) {
	*o = "table"
	c.PersistentFlags().VarP(o, "output", "o", "format of the output: table, json or yaml")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// draws tells whether something is printed of so many rows, when others failed:
// JSON and YAML always are, so that who parses them finds an empty list.
func (o output) draws(rows int) bool { return rows > 0 || o != "table" }

// print writes v as JSON or YAML, or what table draws.
func (o output) print(w io.Writer, v any, table func(t *table)) error {
	if o == "table" {
		t := newTable(w)
		table(t)
		return t.flush()
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if o == "yaml" {
		text, err = yaml.JSONToYAML(text)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// table aligns rows of cells.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t *table) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(text, "\t")) // a failed write shows in flush
}

func (t *table) flush() error { return t.w.Flush() }

// ids prints broker ids as 1,2,3.
func ids(list []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]")
}
