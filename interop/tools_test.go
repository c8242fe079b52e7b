//go:build interop

package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// need skips the test when a program is missing.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed: this test needs it", p)
		}
	}
}

func full() bool { return os.Getenv("INTEROP_FULL") != "" }

func cacheDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("INTEROP_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = os.TempDir() // no home
		}
		dir = filepath.Join(user, "barnabas-interop")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

var fetching sync.Mutex

// kafkaLibs is the directory of Apache Kafka's jars, fetched on first use.
func kafkaLibs(t testing.TB) string {
	t.Helper()
	need(t, "java")
	if libs := os.Getenv("INTEROP_KAFKA_LIBS"); libs != "" {
		return libs
	}
	fetching.Lock()
	defer fetching.Unlock()
	return fetchJars(t, "pom.xml", filepath.Join(cacheDir(t), "kafka-4.4.0-streams"))
}

// fetchJars is a directory of the jars that a pom in java names, fetched once.
func fetchJars(t testing.TB, pom, libs string) string {
	t.Helper()
	if _, err := os.Stat(libs); err == nil {
		return libs
	}
	need(t, "mvn")
	part := libs + ".part"
	run(t, "java", "mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+part)
	if err := os.Rename(part, libs); err != nil {
		t.Fatal(err)
	}
	return libs
}

// pythonClients is a python that has librdkafka's and its own Kafka clients,
// fetched on first use.
func pythonClients(t testing.TB) string {
	t.Helper()
	if python := os.Getenv("INTEROP_PYTHON"); python != "" {
		return python
	}
	need(t, "python3")
	fetching.Lock()
	defer fetching.Unlock()
	dir := filepath.Join(cacheDir(t), "python")
	python := filepath.Join(dir, "bin", "python")
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return python
	}
	run(t, ".", "python3", "-m", "venv", "--clear", dir)
	run(t, ".", python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "confluent-kafka==2.16.1", "kafka-python==3.0.12")
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return python
}

// javaRun runs a class with Apache Kafka's jars on its path and gives back
// what it wrote, standard error included.
func javaRun(t testing.TB, class string, args ...string) string {
	t.Helper()
	out, err := javaTry(t, class, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", class, strings.Join(args, " "), err, lastBytes(out))
	}
	return out
}

// javaTry is javaRun for a program that may fail.
func javaTry(t testing.TB, class string, args ...string) (string, error) {
	t.Helper()
	libs := kafkaLibs(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	path := filepath.Join(libs, "*") + string(os.PathListSeparator) + javaClasses(t, libs)
	out, err := exec.CommandContext(ctx, "java", append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path, class}, args...)...).CombinedOutput()
	return string(out), err
}

// javaClasses compiles the sources beside this file, once.
func javaClasses(t testing.TB, libs string) string {
	t.Helper()
	need(t, "javac")
	fetching.Lock()
	defer fetching.Unlock()
	dir := filepath.Join(cacheDir(t), "classes")
	sources, err := filepath.Glob("java/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	for _, s := range sources {
		class := filepath.Join(dir, strings.TrimSuffix(filepath.Base(s), ".java")+".class")
		if !newer(t, class, s) {
			run(t, ".", "javac", append([]string{"-d", dir, "-cp", filepath.Join(libs, "*")}, sources...)...)
			return dir
		}
	}
	return dir
}

// newer tells whether file is there and was made after source.
func newer(t testing.TB, file, source string) bool {
	t.Helper()
	s, err := os.Stat(source)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Stat(file)
	return err == nil && f.ModTime().After(s.ModTime())
}

const datasets = "vega-datasets@3.2.1"

// datasetFiles lists the CSV and JSON files of the real data set.
func datasetFiles(t testing.TB) []string {
	t.Helper()
	dir := filepath.Join(cacheDir(t), "npm")
	data := filepath.Join(dir, "node_modules", "vega-datasets", "data")
	fetching.Lock()
	defer fetching.Unlock()
	if _, err := os.Stat(data); err != nil {
		need(t, "npm")
		part := dir + ".part"
		if err := os.MkdirAll(part, 0o755); err != nil {
			t.Fatal(err)
		}
		run(t, part, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", part, datasets)
		if err := os.Rename(part, dir); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".csv") || strings.HasSuffix(e.Name(), ".json") {
			files = append(files, filepath.Join(data, e.Name()))
		}
	}
	if len(files) == 0 {
		t.Fatalf("%s has no data files", data)
	}
	return files
}
