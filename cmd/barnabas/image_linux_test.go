package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// image is what the Dockerfile says of the image, as far as it can be tried
// without Docker.
type image struct {
	env         []string
	entry       string
	serve       []string
	healthcheck []string
}

func readImage(t *testing.T) image {
	t.Helper()
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	list := func(pattern string) (out []string) {
		m := regexp.MustCompile(`(?m)^` + pattern + `(\[.*\])$`).FindSubmatch(text)
		if m == nil || json.Unmarshal(m[1], &out) != nil {
			t.Fatalf("the Dockerfile has no %s", pattern)
		}
		return out
	}
	i := image{entry: list(`ENTRYPOINT `)[0], serve: list(`CMD `), healthcheck: list(`HEALTHCHECK .*CMD `)}
	for _, m := range regexp.MustCompile(`(?m)^ENV (\S+)$`).FindAllSubmatch(text, -1) {
		i.env = append(i.env, string(m[1]))
	}
	if !regexp.MustCompile(`(?m)^USER 65532:65532$`).Match(text) || !bytes.Contains(text, []byte("make build ")) {
		t.Fatal("the Dockerfile builds otherwise, or for another user, than this test")
	}
	return i
}

// The binary that the image's command builds serves in a directory with nothing
// beside it, to a user that owns nothing but the data, with the image's settings.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("links the program")
	}
	img, root := readImage(t), t.TempDir()
	build := exec.Command("make", "build", "OUT="+filepath.Join(root, "barnabas"), "VERSION=1.2.3", "COMMIT=abc")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	attr := jail(t, root, data)
	run := func(env []string, args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.SysProcAttr, cmd.Stderr = "/", attr, t.Output()
		for _, kv := range append(img.env, env...) { // ports that are free here
			cmd.Env = append(cmd.Env, regexp.MustCompile(`:(9092|9644)$`).ReplaceAllString(kv, ":0"))
		}
		return cmd
	}
	broker := run(nil, append([]string{img.entry}, img.serve...)...)
	stdout, err := broker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(); err != nil {
		t.Skipf("processes cannot be locked in here: %v", err)
	}
	defer func() { _ = broker.Process.Kill() }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	at := regexp.MustCompile(`PLAINTEXT://\[::\]:(\d+), admin http://\[::\]:(\d+)\n$|PLAINTEXT://0\.0\.0\.0:(\d+), admin http://0\.0\.0\.0:(\d+)\n$`).FindStringSubmatch(line)
	if at == nil {
		t.Fatalf("it says %q (%v)", line, err)
	}
	kafka, admin := at[1]+at[3], at[2]+at[4]
	health := run([]string{"BARNABAS_ADMIN=127.0.0.1:" + admin}, img.healthcheck...)
	if out, err := health.Output(); err != nil {
		t.Fatalf("the health check: %v\n%s", err, out)
	}
	version, err := run(nil, img.entry, "version").Output()
	if err != nil || !strings.HasPrefix(string(version), "barnabas 1.2.3 (commit abc, go") {
		t.Errorf("%s, %v", version, err)
	}
	create := exec.Command("barnabas", "topic", "create", "orders", "-b", "127.0.0.1:"+kafka)
	if out, err := create.CombinedOutput(); err != nil && !bytes.Contains(out, []byte("localhost")) {
		t.Errorf("a client: %v\n%s", err, out)
	}
	if err := broker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := broker.Wait(); err != nil {
		t.Errorf("the stop: %v", err)
	}
	if err := run([]string{"BARNABAS_ADMIN=127.0.0.1:" + admin}, img.healthcheck...).Run(); err == nil {
		t.Error("a broker that is gone is well")
	}
}

// jail is a directory for a root, and the image's user: by what the superuser
// may do, or else by a name space of its own.
func jail(t *testing.T, root, data string) *syscall.SysProcAttr {
	t.Helper()
	const user = 65532
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{
			Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
		}
	}
	if err := os.Chown(data, user, user); err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
}
