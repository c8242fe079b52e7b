package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	bad := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bad[r.URL.Path] {
			http.Error(w, "wrong at "+r.URL.Path, http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	check := func(more ...string) []string {
		return append([]string{"healthcheck", "--admin", s.Listener.Addr().String()}, more...)
	}
	expect(t, 0, check(), "")
	bad["/readyz"] = true
	expect(t, 1, check(), "wrong at /readyz")
	expect(t, 0, check("--live"), "")
	bad["/healthz"] = true
	expect(t, 1, check("--live"), "wrong at /healthz")
	expect(t, 1, []string{"healthcheck", "--admin", "127.0.0.1:1"}, "no broker's admin listener at 127.0.0.1:1")
	expect(t, 2, []string{"healthcheck", "now"}, `"now" is an argument too many`)
}

func TestAdminAddress(t *testing.T) {
	for listener, want := range map[string]string{
		"": defaultAdmin, "x": defaultAdmin, "0.0.0.0:1": "127.0.0.1:1", ":2": "127.0.0.1:2", "[::]:3": "[::1]:3", "10.0.0.1:4": "10.0.0.1:4", "admin.example.com:5": "admin.example.com:5",
	} {
		if got := (App{Environ: []string{"BARNABAS_ADMIN_LISTENER=" + listener}}).adminAddress(); got != want {
			t.Errorf("%s: %s, want %s", listener, got, want)
		}
	}
	if got := (App{Environ: []string{"BARNABAS_ADMIN_LISTENER=:1", "BARNABAS_ADMIN=b:2"}}).adminAddress(); got != "b:2" {
		t.Errorf("BARNABAS_ADMIN: %s", got)
	}
}
