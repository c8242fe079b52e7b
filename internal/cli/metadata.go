package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

const defaultAdmin = "127.0.0.1:9644"

func (a App) metadataCommand() *cobra.Command {
	var admin string
	var o output
	c := &cobra.Command{Use: "metadata", Short: "Look at the cluster's state, back it up, restore it", Example: "  barnabas metadata get /brokers/ids"}
	c.PersistentFlags().StringVar(&admin, "admin", "", "admin address of a broker, host:port (default BARNABAS_ADMIN, else "+defaultAdmin+")")
	o.flag(c)
	c.AddCommand(&cobra.Command{
		Use:   "get PATH",
		Short: "Print what stands at a path, or the names below it",
		Long: `Print what stands at a path, or the names below it. The paths and shapes are those
that ZooKeeper had: /brokers/ids, /brokers/topics/T/partitions/0/state, /controller,
/config/topics/T. It asks the admin listener of a broker.`,
		Example: "  barnabas metadata get /brokers/topics/orders/partitions/0/state",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := fetchMetadata(c.Context(), a.adminOf(admin), args[0])
			if err != nil {
				return err
			}
			return printMetadata(c, o, text)
		},
	}, a.metadataBackupCommand(&admin), a.metadataRestoreCommand())
	return c
}

// adminOf is the one that was named, or set in the environment, or the default.
func (a App) adminOf(named string) string {
	return cmp.Or(named, a.adminAddress())
}

func noAdmin(at string) error {
	return fmt.Errorf("no broker's admin listener at %s: name another with --admin; barnabas.admin.listener sets it", at)
}

func fetchMetadata(ctx context.Context, admin, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	u := url.URL{Scheme: "http", Host: admin, Path: "/metadata/" + strings.Trim(path, "/")}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, usagef("--admin: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, noAdmin(admin)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
		if resp.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w; `barnabas metadata get /` shows what there is", err)
		}
	}
	return text, err
}

// printMetadata writes names one a line, and values as JSON or YAML.
func printMetadata(c *cobra.Command, o output, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("that is no admin listener of Barnabas: %w", err)
	}
	if o != "table" {
		return o.print(c.OutOrStdout(), v, nil)
	}
	if m, ok := v.(map[string]any); ok {
		if names, ok := m["children"].([]any); ok && len(m) == 1 {
			return o.print(c.OutOrStdout(), v, func(t *table) {
				for _, n := range names {
					t.row(n)
				}
			})
		}
	}
	_, err := c.OutOrStdout().Write(text)
	return err
}
