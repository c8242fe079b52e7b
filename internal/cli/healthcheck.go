package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func (a App) healthcheckCommand() *cobra.Command {
	var admin string
	var live bool
	c := &cobra.Command{
		Use:   "healthcheck",
		Short: "Say whether a broker is well: exit code 0 or 1",
		Long: `Say whether a broker serves and nothing of it is broken, for whoever restarts or
routes: exit code 0, or 1 and why not. It asks the admin listener, which it finds
by --admin, BARNABAS_ADMIN, BARNABAS_ADMIN_LISTENER, or at ` + defaultAdmin + `.`,
		Example: "  barnabas healthcheck\n  barnabas healthcheck --live",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if admin == "" {
				admin = a.adminAddress()
			}
			pages := []string{"healthz", "readyz"}
			if live {
				pages = pages[:1]
			}
			for _, page := range pages {
				if err := healthy(c.Context(), admin, page); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().StringVar(&admin, "admin", "", "admin address of a broker, host:port (default BARNABAS_ADMIN, else BARNABAS_ADMIN_LISTENER, else "+defaultAdmin+")")
	c.Flags().BoolVar(&live, "live", false, "whether it starts does not count: only what a restart would mend")
	return c
}

// adminAddress is where the environment says that a broker's admin listener is;
// one on every interface is on loopback too.
func (a App) adminAddress() string {
	if named := a.env("BARNABAS_ADMIN"); named != "" {
		return named
	}
	host, port, err := net.SplitHostPort(a.env("BARNABAS_ADMIN_LISTENER"))
	if err != nil {
		return defaultAdmin
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

func healthy(ctx context.Context, admin, page string) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/"+page, nil)
	if err != nil {
		return usagef("--admin: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("no broker's admin listener at %s: barnabas.admin.listener sets it", admin)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(text)))
	}
	return err
}
