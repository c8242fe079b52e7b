package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"testing"
	"time"
)

var some = []file{{"docs/b.md", 0o644, []byte("b")}, {"barnabas", 0o755, []byte("binary")}, {"LICENSE", 0o644, []byte("free")}}

// What goes in comes out, under one directory, and the order that files come in
// and the zone of the machine are not in the bytes.
func TestArchives(t *testing.T) {
	when := time.Unix(1767225600, 0)
	for name, pack := range map[string]func(string, []file, time.Time) ([]byte, error){"tar.gz": tarGz, "zip": zipped} {
		packed, err := pack("barnabas-1", some, when.UTC())
		if err != nil {
			t.Fatal(err)
		}
		turned := slices.Clone(some)
		slices.Reverse(turned)
		again, err := pack("barnabas-1", turned, time.Unix(when.Unix(), 0).UTC())
		if err != nil || !bytes.Equal(packed, again) {
			t.Errorf("%s: other bytes the second time (%v)", name, err)
		}
		list := map[string]func(*testing.T, []byte) []string{"tar.gz": inTar, "zip": inZip}[name](t, packed)
		want := []string{"barnabas-1/LICENSE -rw-r--r-- free", "barnabas-1/barnabas -rwxr-xr-x binary", "barnabas-1/docs/b.md -rw-r--r-- b"}
		if !slices.Equal(list, want) {
			t.Errorf("%s: %q, want %q", name, list, want)
		}
	}
}

func inTar(t *testing.T, packed []byte) (out []string) {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(gz); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || h.ModTime.Unix() != 1767225600 {
			t.Errorf("%s: %v, of %v", h.Name, err, h.ModTime)
		}
		out = append(out, h.Name+" "+h.FileInfo().Mode().String()+" "+string(text))
	}
}

func inZip(t *testing.T, packed []byte) (out []string) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || f.Modified.Unix() != 1767225600 {
			t.Errorf("%s: %v, of %v", f.Name, err, f.Modified)
		}
		out = append(out, f.Name+" "+f.Mode().String()+" "+string(text))
	}
	return out
}

func TestEpoch(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	if got, err := epoch(t.Context()); err != nil || got.Format(time.RFC3339) != "2026-01-01T00:00:00Z" {
		t.Errorf("%v, %v", got, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if _, err := epoch(t.Context()); err == nil {
		t.Error("no time, and no error")
	}
}
