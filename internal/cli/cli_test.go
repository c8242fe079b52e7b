package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"barnabas": func() {
		os.Exit(App{Version: "1.2.3", Commit: "abc", In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Serve: echoServe}.Main(os.Args[1:]))
	}})
}

// echoServe is a broker that only says what it was given, and waits when it is asked to.
func echoServe(ctx context.Context, o ServeOptions) error {
	o.Log.Info("serving", "node", o.Broker.NodeID, "dirs", o.Broker.Storage.Dirs)
	if o.Broker.Rack == "refuse" {
		return fmt.Errorf("the directory %s is in use", o.Broker.Storage.Dirs[0])
	}
	o.Ready([]string{o.Broker.Listeners[0].String()}, o.Broker.Admin)
	if o.Broker.Rack == "wait" {
		<-ctx.Done()
	}
	return nil
}

// Each script under testdata/script runs against a fake cluster of its own;
// "segment FILE" writes a segment file with two batches, "wrong" expects wrong use,
// "until" waits.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(2))
			if err != nil {
				return err
			}
			env.Defer(cluster.Close)
			env.Setenv("BARNABAS_BOOTSTRAP", strings.Join(cluster.ListenAddrs(), ","))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"wrong": wrongUse,
			// until PATTERN ARGS...: run it until it prints what matches.
			"until": func(ts *testscript.TestScript, _ bool, args []string) {
				match := regexp.MustCompile("(?m)" + args[0])
				for deadline := time.Now().Add(20 * time.Second); ; {
					err := ts.Exec("barnabas", args[1:]...)
					if said := ts.ReadFile("stdout"); err == nil && match.MatchString(said) {
						return
					} else if time.Now().After(deadline) {
						ts.Fatalf("it still said %q, not %q (%v)", said, args[0], err)
					}
				}
			},
			// deleteid TOPIC: deletes it by its id.
			"deleteid": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(ts.Exec("barnabas", "topic", "list", "-o", "json", "^"+args[0]+"$"))
				id := regexp.MustCompile(`"id": "([^"]*)"`).FindStringSubmatch(ts.ReadFile("stdout"))
				// Ids of the fake cluster may begin with a dash; those of Barnabas and Apache Kafka do not.
				ts.Check(ts.Exec("barnabas", "topic", "delete", "--id", "--", id[1]))
			},
			"segment": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(writeSegment(filepath.Join(ts.Getenv("WORK"), args[0])))
			},
		},
	})
}

// wrongUse is the verb wrong PATTERN ARGS...: exit code 2 and a sentence that matches.
func wrongUse(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("barnabas", args[1:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
		ts.Fatalf("exit code %v, want %d", err, exitUsage)
	}
	said := strings.TrimSpace(ts.ReadFile("stderr"))
	if ok, err := regexp.MatchString(args[0], said); err != nil || !ok {
		ts.Fatalf("it said %q, want %q (%v)", said, args[0], err)
	}
	if strings.Contains(said, "\n") || !strings.HasPrefix(said, "barnabas: ") {
		ts.Fatalf("more than one sentence: %q", said)
	}
}

func writeSegment(name string) error {
	var out []byte
	var b batch.Builder
	for i, codec := range []batch.Codec{batch.None, batch.Zstd} {
		b.Reset(batch.Options{BaseOffset: int64(2 * i), Encoding: batch.Encoding{Codec: codec}})
		b.Append(1000, []byte("k"), fmt.Appendf(nil, "value %d", 2*i))
		b.Append(1001, nil, nil)
		next, _, err := b.Build(out)
		if err != nil {
			return err
		}
		out = next
	}
	return os.WriteFile(name, out, 0o600)
}

// Which of two directories would count is not for the reader to guess.
func TestServeTakesOneWordForTheDirectory(t *testing.T) {
	for _, key := range []string{"log.dirs", "log.dir"} {
		expect(t, 2, []string{"serve", "--data-dir", "/nosuch/a", "--set", key + "=/nosuch/b"}, "--data-dir and --set "+key+" both say where the data is")
	}
}
