package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestMetadataGet(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metadata/brokers/ids":
			_, _ = w.Write([]byte(`{"children":["1","2"]}`))
		case "/metadata/controller":
			_, _ = w.Write([]byte("{\n  \"brokerid\": 1\n}\n"))
		case "/metadata/html":
			_, _ = w.Write([]byte("<p>"))
		default:
			http.Error(w, "there is no "+r.URL.Path, http.StatusNotFound)
		}
	}))
	defer s.Close()
	admin := s.Listener.Addr().String()
	get := func(path string, more ...string) []string {
		return append([]string{"metadata", "get", path, "--admin", admin}, more...)
	}
	expect(t, 0, get("/brokers/ids"), "1\n2\n")
	expect(t, 0, get("controller/"), "{\n  \"brokerid\": 1\n}\n")
	expect(t, 0, get("/controller", "-o", "yaml"), "brokerid: 1\n")
	expect(t, 0, get("/brokers/ids", "-o", "json"), `"children": [`)
	expect(t, 1, get("/nothing"), "there is no /metadata/nothing")
	expect(t, 1, get("/html"), "that is no admin listener of Barnabas")
	expect(t, 1, []string{"metadata", "get", "/", "--admin", "127.0.0.1:1"}, "no broker's admin listener at 127.0.0.1:1")
	expect(t, 2, []string{"metadata", "get"}, "usage: barnabas metadata get PATH")
}
