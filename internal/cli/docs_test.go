package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestDocs keeps docs/cli.md in step with the commands.
func TestDocs(t *testing.T) {
	code, out, errs := run(t, "", "docs", "cli")
	if code != 0 {
		t.Fatal(errs)
	}
	was, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(was, []byte(out)) {
		t.Error("docs/cli.md is not what the commands say: run `bin/barnabas docs cli > docs/cli.md`")
	}
}
