package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

func TestLogFormat(t *testing.T) {
	said := func(format string) string {
		t.Helper()
		var out, errs bytes.Buffer
		app := App{In: strings.NewReader(""), Out: &out, Err: &errs, Serve: func(_ context.Context, o ServeOptions) error {
			o.Log.Info("said", "part", "api")
			return nil
		}}
		if code := app.Run(t.Context(), []string{"serve", "--set", "barnabas.log.format=" + format}); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		return errs.String()
	}
	var line struct{ Level, Msg, Part string }
	got := said("json")
	if err := json.Unmarshal([]byte(got), &line); err != nil || line.Level != "INFO" || line.Msg != "said" || line.Part != "api" {
		t.Errorf("json: %v: %s", err, got)
	}
	if got := said("text"); !strings.Contains(got, "level=INFO msg=said part=api\n") {
		t.Errorf("text: %s", got)
	}
}
