// Command dist makes the release archives: for each platform the static binary,
// what is installed beside it, and completions of shells; with SHA256SUMS. The
// same commit gives the same bytes: nothing of the clock or of the place where
// it was built is in them. It is run by `make dist`, at the root of the module.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// platforms of the archives.
var platforms = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "-" + p.arch }

// Options of one run.
type options struct {
	version, ldflags string
	barnabas         string // a binary that runs here, for the completions
	out              string
}

func main() {
	var o options
	flag.StringVar(&o.version, "version", "dev", "version in the names of the archives")
	flag.StringVar(&o.ldflags, "ldflags", "", "flags of the linker")
	flag.StringVar(&o.barnabas, "barnabas", "bin/barnabas", "binary for this machine, which writes the completions")
	flag.StringVar(&o.out, "out", "dist", "directory of the archives")
	only := flag.String("only", "", "platforms separated by commas, such as linux-arm64; all where empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, *only); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, only string) error {
	when, err := epoch(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	common, err := o.files(ctx)
	if err != nil {
		return err
	}
	var sums []string
	for _, p := range platforms {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.String()) {
			continue
		}
		name, packed, err := o.archive(ctx, p, common, when)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if err := os.WriteFile(filepath.Join(o.out, name), packed, 0o644); err != nil {
			return err
		}
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(packed), name))
		fmt.Printf("%s %d bytes\n", filepath.Join(o.out, name), len(packed))
	}
	if len(sums) == 0 {
		return fmt.Errorf("no platform is named %s", only)
	}
	return os.WriteFile(filepath.Join(o.out, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// epoch is the time of everything in the archives: SOURCE_DATE_EPOCH, else that
// of the commit (reproducible-builds.org).
func epoch(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, errors.New("set SOURCE_DATE_EPOCH: there is no commit to take the time from")
		}
		text = strings.TrimSpace(string(out))
	}
	sec, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(sec, 0).UTC(), nil
}

// files are what every archive has beside the binary, by name.
func (o options) files(ctx context.Context) ([]file, error) {
	var out []file
	for _, name := range []string{"LICENSE", "NOTICE", "README.md", "packaging/barnabas.service", "packaging/server.properties"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, file{filepath.Base(name), 0o644, text})
	}
	docs, err := filepath.Glob("docs/*.md")
	if err != nil {
		return nil, err
	}
	for _, name := range docs {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, file{filepath.ToSlash(name), 0o644, text})
	}
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		text, err := output(ctx, o.barnabas, nil, "completion", shell)
		if err != nil {
			return nil, err
		}
		out = append(out, file{"completions/barnabas." + cmp.Or(map[string]string{"powershell": "ps1"}[shell], shell), 0o644, text})
	}
	return out, nil
}

// archive builds for a platform and packs: zip for Windows, tar.gz for others.
func (o options) archive(ctx context.Context, p platform, common []file, when time.Time) (string, []byte, error) {
	name, pack, binary := "barnabas-"+o.version+"-"+p.String(), tarGz, "barnabas"
	ext := ".tar.gz"
	if p.os == "windows" {
		pack, binary, ext = zipped, "barnabas.exe", ".zip"
	}
	dir, err := os.MkdirTemp("", "dist")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, binary)
	env := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	if _, err := output(ctx, "go", env, "build", "-trimpath", "-buildvcs=false", "-ldflags", o.ldflags, "-o", path, "./cmd/barnabas"); err != nil {
		return "", nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	files := []file{{binary, 0o755, text}}
	for _, f := range common {
		if p.os == "linux" || f.name != "barnabas.service" {
			files = append(files, f)
		}
	}
	packed, err := pack(name, files, when)
	return name + ext, packed, err
}

// output runs a program; what it says of a failure is the error.
func output(ctx context.Context, program string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}
