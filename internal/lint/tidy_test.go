package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Sizes in lines. Above soft a reason must stand in long; above hard nothing helps.
const (
	softFile, hardFile         = 500, 800
	softFunction, hardFunction = 70, 100
)

// long holds the reason why a file ("dir/file.go") or a function
// ("dir/file.go:Name" or "dir/file.go:Type.Name") is longer than the soft limit.
var long = map[string]string{}

// sleepers are test files that may call time.Sleep outside a synctest bubble, with the reason.
var sleepers = map[string]string{
	"internal/server/soak_test.go": "the pace of a load, not a wait for an event",
	"internal/await/await_test.go": "a benchmark makes way for the waiter that it measures",
}

// printers are packages whose work is to print.
var printers = map[string]string{}

// vague package names say nothing about what is inside.
var vague = []string{"base", "common", "helper", "helpers", "lib", "manager", "misc", "shared", "types", "util", "utils"}

// The words and paths are put together here, so that this file passes its own test.
var (
	unfinished  = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}, "|") + `)\b`)
	machinePath = regexp.MustCompile(`(^|[\s"'=(:` + "`" + `])/(` + strings.Join([]string{"wo" + "rk", "fa" + "rm", "ro" + "ot", "ho" + "me/[a-z]", "Us" + "ers/[a-z]"}, "|") + `)/`)
)

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
	}
}

// source is one Go file of the module.
type source struct {
	path string // from the module root, with slashes
	text string
	fset *token.FileSet
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }
func (s source) dir() string {
	return path.Dir(s.path)
}
func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(n.Pos()).Line)
}

// walk calls f with every file that the project wrote.
func walk(t *testing.T, f func(name string, text []byte)) {
	t.Helper()
	root := moduleRoot(t)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "bin", "barnabas-data", "testdata":
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		f(filepath.ToSlash(rel), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sources parses the module's Go files; bench is a module of its own.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	walk(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "bench/") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(f) {
			out = append(out, source{name, string(text), fset, f})
		}
	})
	return out
}

func TestSizes(t *testing.T) {
	used := map[string]bool{}
	report := func(key string, lines, soft, hard int) {
		switch {
		case lines > hard:
			t.Errorf("%s: %d lines, more than %d: cut it in two", key, lines, hard)
		case lines > soft && long[key] == "":
			t.Errorf("%s: %d lines, more than %d: cut it in two, or write the reason into internal/lint/tidy_test.go", key, lines, soft)
		case lines > soft:
			used[key] = true
		}
	}
	for _, s := range sources(t) {
		softF, softFn := softFile, softFunction
		if s.test() { // a long table or script is not a long thought
			softF, softFn = hardFile, hardFunction
		}
		report(s.path, strings.Count(s.text, "\n"), softF, hardFile)
		for name, lines := range functions(s) {
			report(s.path+":"+name, lines, softFn, hardFunction)
		}
	}
	for key := range long {
		if !used[key] {
			t.Errorf("%s is on the list of long things and is not long (any more): take it off", key)
		}
	}
}

// functions gives the length of each function of a file.
func functions(s source) map[string]int {
	out := map[string]int{}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			name = receiver(f.Recv.List[0].Type) + "." + name
		}
		out[name] = s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
	}
	return out
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func TestPackageComments(t *testing.T) {
	comments := map[string][]string{}
	tests := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		tests[s.dir()] = true
		if s.file.Doc == nil {
			continue
		}
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command "
		}
		if text := s.file.Doc.Text(); !strings.HasPrefix(text, want) {
			t.Errorf("%s: the package comment must begin with %q", s.path, want)
		}
		comments[s.dir()] = append(comments[s.dir()], s.path)
	}
	for dir := range tests {
		switch n := len(comments[dir]); {
		case n == 0:
			t.Errorf("%s: no package comment: say what it is, what it promises, and who may call it concurrently", dir)
		case n > 1:
			t.Errorf("%s: package comment in %d files: %v", dir, n, comments[dir])
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, s := range sources(t) {
		if name := strings.TrimSuffix(s.file.Name.Name, "_test"); slices.Contains(vague, name) {
			t.Errorf("%s: package %s: name it by what it does", s.path, name)
		}
	}
}

func TestNoPrinting(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(s.path, "internal/") || printers[s.dir()] != "" {
			continue
		}
		for _, imp := range s.file.Imports {
			if p, _ := strconv.Unquote(imp.Path.Value); p == "log" {
				t.Errorf("%s: import of log: take a *slog.Logger in the constructor", s.at(imp))
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if id, ok := c.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") && id.Obj == nil {
				t.Errorf("%s: %s", s.at(n), id.Name)
			}
			if strings.HasPrefix(selector(c.Fun), "fmt.Print") {
				t.Errorf("%s: %s: write to the writer that the caller gave", s.at(n), selector(c.Fun))
			}
			return true
		})
	}
}

// selector prints a.b, or nothing.
func selector(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		if id, ok := sel.X.(*ast.Ident); ok {
			return id.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

func TestNoSleepInTests(t *testing.T) {
	byDir := map[string][]source{}
	for _, s := range sources(t) {
		if s.test() {
			byDir[s.dir()] = append(byDir[s.dir()], s)
		}
	}
	for _, tests := range byDir {
		bubbled := reachBubble(tests)
		for _, s := range tests {
			if sleepers[s.path] != "" {
				continue
			}
			for _, n := range sleeps(s, bubbled) {
				t.Errorf("%s: time.Sleep outside synctest: wait for the event that is meant", s.at(n))
			}
		}
	}
}

// reachBubble names the functions of a package's tests that run something in a
// synctest bubble, by themselves or through one another.
func reachBubble(tests []source) map[string]bool {
	bubbled := map[string]bool{}
	for grown := true; grown; {
		grown = false
		for _, s := range tests {
			for _, d := range s.file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil || bubbled[f.Name.Name] {
					continue
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					if c, ok := n.(*ast.CallExpr); ok {
						id, _ := c.Fun.(*ast.Ident)
						if selector(c.Fun) == "synctest.Test" || id != nil && bubbled[id.Name] {
							bubbled[f.Name.Name], grown = true, true
						}
					}
					return true
				})
			}
		}
	}
	return bubbled
}

var entryPoint = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`)

// sleeps finds calls of time.Sleep with no bubble around them. A test must
// reach a bubble; a helper that sleeps must stand in a file that uses synctest.
func sleeps(s source, bubbled map[string]bool) []ast.Node {
	helpers := slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
	var found []ast.Node
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && (bubbled[f.Name.Name] || helpers && !entryPoint.MatchString(f.Name.Name)) {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && selector(c.Fun) == "time.Sleep" {
				found = append(found, c)
			}
			return true
		})
	}
	return found
}

func TestWordsAndPaths(t *testing.T) {
	walk(t, func(name string, text []byte) {
		switch path.Ext(name) {
		case ".go", ".md", ".mod", ".conf", ".yml", ".yaml", ".sh", ".properties", "":
		default:
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			if m := unfinished.FindString(line); m != "" {
				t.Errorf("%s:%d: %s: finish it, or file it where work is kept", name, i+1, m)
			}
			if m := machinePath.FindString(line); m != "" {
				t.Errorf("%s:%d: %q is a path of one machine", name, i+1, strings.TrimSpace(m))
			}
		}
	})
}

// TestTidyRefuses proves that the finders find.
func TestTidyRefuses(t *testing.T) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x_test.go", `package x
func a() { time.Sleep(1) }
func TestB(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }
func (r *R[T]) c() {
}
func in(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }
func TestD(t *testing.T) { in(t, func() { time.Sleep(1) }) }
func TestE(t *testing.T) { go time.Sleep(1) }
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	src := source{fset: fset, file: f}
	if got := sleeps(src, reachBubble([]source{src})); len(got) != 2 || fset.Position(got[0].Pos()).Line != 2 || fset.Position(got[1].Pos()).Line != 8 {
		t.Errorf("sleeps: %d found", len(got))
	}
	if got := functions(src); got["R.c"] != 2 || got["a"] != 1 {
		t.Errorf("functions: %v", got)
	}
	if !unfinished.MatchString("// TO"+"DO later") || unfinished.MatchString("todo list") {
		t.Error("banned words")
	}
	if !machinePath.MatchString(`cd /wo`+`rk/x`) || machinePath.MatchString("net/wo"+"rk/x") {
		t.Error("machine paths")
	}
}
