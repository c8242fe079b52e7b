package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const cliHead = `# The command line

<!-- Written by "barnabas docs cli"; a test keeps it in step with the commands. -->

One binary is the broker and its tools: noun, then verb. Exit codes: 0 done, 1 failed, 2 wrong use. Results go to standard output, and everything else
to standard error; in a pipe there is nothing but the result. The brokers to ask come from ` + "`--bootstrap`" + `, else from ` + "`bootstrap.servers`" + ` in the
file that ` + "`--config`" + ` names, else from ` + "`BARNABAS_BOOTSTRAP`" + `, else it is ` + "`127.0.0.1:9092`" + `.

Completion of topics, groups, configuration keys and their values: ` + "`source <(barnabas completion bash)`" + `, or ` + "`zsh`, `fish`, `powershell`" + `.
`

// docsCommand writes docs/cli.md.
func docsCommand() *cobra.Command {
	c := &cobra.Command{Use: "docs", Short: "Write documentation from the commands themselves", Hidden: true, Example: "  barnabas docs cli > cli.md"}
	c.AddCommand(&cobra.Command{
		Use:     "cli",
		Short:   "Write docs/cli.md",
		Example: "  barnabas docs cli > cli.md",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return writeDocs(c.OutOrStdout(), c.Root())
		},
	})
	return c
}

// writeDocs writes every command that is shown, in the order of their names.
func writeDocs(w io.Writer, root *cobra.Command) error {
	var sb strings.Builder
	sb.WriteString(cliHead)
	sb.WriteString("\nFlags that every command takes:\n\n")
	fence(&sb, root.PersistentFlags().FlagUsages())
	sb.WriteString("\n| command | |\n|---|---|\n")
	walkCommands(root, func(c *cobra.Command) {
		if !c.HasSubCommands() {
			fmt.Fprintf(&sb, "| [%s](#%s) | %s |\n", strings.TrimPrefix(c.CommandPath(), "barnabas "), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
		}
	})
	walkCommands(root, func(c *cobra.Command) {
		if c != root {
			describeCommand(&sb, c)
		}
	})
	_, err := io.WriteString(w, sb.String())
	return err
}

// walkCommands visits a command and those below it, hidden ones left out.
func walkCommands(c *cobra.Command, visit func(c *cobra.Command)) {
	if c.Hidden {
		return
	}
	visit(c)
	for _, sub := range c.Commands() {
		walkCommands(sub, visit)
	}
}

func describeCommand(sb *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(sb, "\n%s %s\n\n%s.\n\n", strings.Repeat("#", 1+strings.Count(c.CommandPath(), " ")), c.CommandPath(), c.Short)
	if c.HasSubCommands() {
		for _, sub := range c.Commands() {
			if !sub.Hidden {
				fmt.Fprintf(sb, "- `%s`: %s\n", sub.CommandPath(), sub.Short)
			}
		}
	} else {
		fence(sb, c.UseLine())
	}
	if long := strings.TrimSpace(c.Long); long != "" {
		sb.WriteString("\n")
		fence(sb, long)
	}
	if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
		sb.WriteString("\n")
		fence(sb, flags.FlagUsages())
	}
	if c.Example != "" {
		sb.WriteString("\n")
		var lines []string
		for line := range strings.SplitSeq(c.Example, "\n") {
			lines = append(lines, strings.TrimPrefix(line, "  "))
		}
		fence(sb, strings.Join(lines, "\n"))
	}
}

// fence writes text as it is.
func fence(sb *strings.Builder, text string) {
	fmt.Fprintf(sb, "```text\n%s\n```\n", strings.Trim(text, "\n"))
}
