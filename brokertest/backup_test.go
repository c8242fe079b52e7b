package brokertest_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/broker"
	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/cli"
)

// A broker that lost its metadata, and got them back from a backup by the command
// line, has its records again; a topic that the backup does not know is set aside.
func TestMetadataBackup(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	b := brokertest.Start(t, brokertest.Dir(dir), brokertest.Set("barnabas.admin.listener", "127.0.0.1:0"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	produce(ctx, t, b, "a", "b")
	id := dial(t, b).cluster()
	run := func(line string) (string, int) {
		var out bytes.Buffer
		app := cli.App{In: strings.NewReader(""), Out: &out, Err: &out, Environ: []string{"BARNABAS_ADMIN=" + b.Broker().AdminAddr()},
			Restore: func(o cli.ServeOptions, file string) error {
				return broker.Restore(broker.Options{Config: o.Config, Logger: o.Log}, file)
			}}
		code := app.Run(ctx, strings.Fields(line))
		return out.String(), code
	}
	if out, code := run("metadata backup " + file); code != 0 || !strings.Contains(out, " keys at revision ") {
		t.Fatalf("%d: %s", code, out)
	}
	if out, code := run("metadata backup " + file); code != 2 || !strings.Contains(out, "is there already") {
		t.Errorf("over another: %d: %s", code, out)
	}
	restore := "metadata restore " + file + " --data-dir " + dir
	if out, code := run(restore); code != 1 || !strings.Contains(out, "not a directory without metadata") {
		t.Errorf("beside metadata: %d: %s", code, out)
	}
	p := dial(t, b)
	p.create("later", 1)
	b.Stop()
	if err := os.RemoveAll(filepath.Join(dir, "metadata")); err != nil {
		t.Fatal(err)
	}
	if out, code := run(restore + " --set controller.quorum.voters=1@127.0.0.1:1 --set node.id=2 --set process.roles=broker"); code != 2 || !strings.Contains(out, "restore on the voters") {
		t.Errorf("on another: %d: %s", code, out)
	}
	if out, code := run(restore); code != 0 || !strings.Contains(out, "restored in "+dir) {
		t.Fatalf("%d: %s", code, out)
	}
	b.Restart()
	consume(ctx, t, b, "a", "b")
	produce(ctx, t, b, "c")
	if got := dial(t, b).cluster(); got != id {
		t.Errorf("cluster %s, was %s", got, id)
	}
	aside, err := filepath.Glob(filepath.Join(dir, "later-0.*-stray"))
	if err != nil || len(aside) != 1 {
		t.Errorf("what the backup does not know: %v, %v", aside, err)
	}
}
