package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/metastore/etcdstore"
)

func (a App) metadataBackupCommand(admin *string) *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write all of the metadata into a file",
		Long: `Write all of the metadata into a new file: topics, settings, who leads what. It holds
no records. Any broker's admin listener may be asked, while the cluster runs. The
file is one that etcdutl reads, too.`,
		Example: "  barnabas metadata backup metadata.backup",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			b, err := a.backup(c, a.adminOf(*admin), args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d keys at revision %d in %s, %s\n", b.Keys, b.Revision, args[0], byteSize(b.Bytes))
			return err
		},
	}
}

// backup fetches the file, and looks whether it is whole before it gets its name.
func (a App) backup(c *cobra.Command, admin, path string) (etcdstore.Backup, error) {
	var none etcdstore.Backup
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return none, usagef("%s is there already", path)
	}
	u := url.URL{Scheme: "http", Host: admin, Path: "/metadata-backup"}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		return none, usagef("--admin: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return none, noAdmin(admin)
	}
	if err != nil {
		return none, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		return none, errors.New(strings.TrimSpace(string(text)))
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return none, err
	}
	_, err = io.Copy(f, resp.Body)
	err = errors.Join(err, f.Sync(), f.Close())
	var b etcdstore.Backup
	if err == nil {
		b, err = etcdstore.Inspect(part)
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return b, err
}

func (a App) metadataRestoreCommand() *cobra.Command {
	var file, dataDir string
	var set []string
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the metadata of a voter that does not run out of a backup",
		Long: `Make the metadata of a voter that does not run out of a backup. It is done on every
voter, from the same file, with the settings that the voter is then started with; its
metadata directory must not be there. The log directories stay as they are: what
the backup does not know of is set aside, and not deleted. No broker may run meanwhile.`,
		Example: "  barnabas metadata restore metadata.backup --config server.properties",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if dataDir != "" {
				set = append(set, "log.dirs="+dataDir)
			}
			cfg, _, err := config.Load(config.Options{File: file, Environ: a.Environ, Set: set})
			if err != nil {
				return usageError{err}
			}
			b, err := cfg.Broker(nil)
			if err != nil {
				return usageError{err}
			}
			if !b.Votes() || len(b.Metadata.Endpoints) > 0 {
				return usagef("node %d carries no metadata by these settings: restore on the voters", b.NodeID)
			}
			if a.Restore == nil {
				return errors.New("this program was built without a broker")
			}
			log, _ := logger(c.ErrOrStderr(), cfg)
			found, err := etcdstore.Inspect(args[0])
			if err != nil {
				return err
			}
			if err := a.Restore(ServeOptions{Config: cfg, Broker: b, Log: log}, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d keys of revision %d restored in %s\n", found.Keys, found.Revision, b.Metadata.Dir)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&file, "config", "", "file of the voter's settings")
	f.StringArrayVar(&set, "set", nil, "setting key=value; may be given many times")
	f.StringVar(&dataDir, "data-dir", "", "directory of the data (log.dirs)")
	return c
}
