package main

import (
	"os"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/barnabas-mq/barnabas/internal/config"
)

// What is installed beside the binary is taken without a word, and agrees.
func TestPackaged(t *testing.T) {
	cfg, warnings, err := config.Load(config.Options{File: "../../packaging/server.properties"})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("server.properties: %v, warnings %q", err, warnings)
	}
	f, err := os.Open("../../packaging/barnabas.service")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	options, err := unit.DeserializeOptions(f)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, o := range options {
		got[o.Section+"."+o.Name] = o.Value
	}
	for name, want := range map[string]string{
		"Service.Type":                     "notify",
		"Service.ExecStart":                "/usr/local/bin/barnabas serve --config /etc/barnabas/server.properties",
		"Service.ExecReload":               "/bin/kill -HUP $MAINPID",
		"Service.RestartPreventExitStatus": "2",
		"Service.NoNewPrivileges":          "yes",
		"Install.WantedBy":                 "multi-user.target",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	b, err := cfg.Broker(nil)
	if err != nil {
		t.Fatal(err)
	}
	if dir := "/var/lib/" + got["Service.StateDirectory"]; strings.Join(b.Storage.Dirs, ",") != dir || got["Service.WorkingDirectory"] != dir {
		t.Errorf("the data is in %v, and the unit may write to %s", b.Storage.Dirs, dir)
	}
}
