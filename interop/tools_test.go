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
	libs := filepath.Join(cacheDir(t), "kafka-4.4.0")
	if jars, _ := filepath.Glob(filepath.Join(libs, "kafka-tools-*.jar")); len(jars) > 0 {
		return libs
	}
	need(t, "mvn")
	part := libs + ".part"
	run(t, "java", "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+part)
	if err := os.Rename(part, libs); err != nil {
		t.Fatal(err)
	}
	return libs
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
	out, err := exec.CommandContext(ctx, "java", append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-cp", path, class}, args...)...).CombinedOutput()
	return string(out), err
}

// javaClasses compiles the sources beside this file, once.
func javaClasses(t testing.TB, libs string) string {
	t.Helper()
	need(t, "javac")
	fetching.Lock()
	defer fetching.Unlock()
	dir := filepath.Join(cacheDir(t), "classes")
	source, err := os.Stat("java/Consume.java")
	if err != nil {
		t.Fatal(err)
	}
	if class, err := os.Stat(filepath.Join(dir, "Consume.class")); err == nil && class.ModTime().After(source.ModTime()) {
		return dir
	}
	run(t, ".", "javac", "-d", dir, "-cp", filepath.Join(libs, "*"), "java/Consume.java")
	return dir
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
