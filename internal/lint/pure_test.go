package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// impureImports may not appear in a pure package.
var impureImports = []string{"crypto/rand", "io/ioutil", "log", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "os/signal", "runtime", "sync", "sync/atomic", "syscall"}

// clock functions of package time read or start a clock.
var clock = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// unordered functions of package maps run in map order; only slices.Sorted and
// its kin may take their result.
var unordered = []string{"All", "Keys", "Values"}

var sorting = []string{"Sorted", "SortedFunc", "SortedStableFunc"}

func TestPure(t *testing.T) {
	var patterns []string
	for _, r := range Floors {
		if r.Pure {
			patterns = append(patterns, r.path())
		}
	}
	ps, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
		Dir:  moduleRoot(t),
	}, existing(t, patterns)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, e)
		}
		for _, f := range p.Syntax {
			for _, problem := range impurities(p.Fset, f, p.TypesInfo) {
				t.Error(problem)
			}
		}
	}
}

// existing keeps the packages that are there.
func existing(t *testing.T, patterns []string) []string {
	have := map[string]bool{}
	for _, p := range goList(t) {
		have[p.ImportPath] = true
	}
	out := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return !have[p] })
	if len(out) == 0 {
		t.Fatal("no pure package found")
	}
	return out
}

// impurities lists what a pure file must not do.
func impurities(fset *token.FileSet, f *ast.File, info *types.Info) []string {
	var problems []string
	bad := func(n ast.Node, what string) {
		problems = append(problems, fmt.Sprintf("%s: %s: this package decides; time, chance, I/O and concurrency belong to its caller", fset.Position(n.Pos()), what))
	}
	for _, imp := range f.Imports {
		if path, _ := strconv.Unquote(imp.Path.Value); slices.Contains(impureImports, path) {
			bad(imp, "import of "+path)
		}
	}
	sorted := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad(n, "go statement")
		case *ast.ChanType:
			bad(n, "channel")
		case *ast.SendStmt, *ast.SelectStmt:
			bad(n, "channel operation")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				bad(n, "channel operation")
			}
		case *ast.RangeStmt:
			if tv, ok := info.Types[n.X]; ok && isMap(tv.Type) {
				bad(n, "range over a map: its order is random; range over slices.Sorted(maps.Keys(m))")
			}
		case *ast.CallExpr:
			pkg, name := callee(info, n)
			if pkg == "slices" && slices.Contains(sorting, name) && len(n.Args) > 0 {
				sorted[ast.Unparen(n.Args[0])] = true
			}
			if pkg == "maps" && slices.Contains(unordered, name) && !sorted[n] {
				bad(n, "maps."+name+" outside slices.Sorted: its order is random")
			}
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok {
				if p, ok := info.Uses[id].(*types.PkgName); ok && p.Imported().Path() == "time" && slices.Contains(clock, n.Sel.Name) {
					bad(n, "time."+n.Sel.Name)
				}
			}
		}
		return true
	})
	return problems
}

// isMap looks through names and type parameters.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Interface: // a type parameter constrained to maps, such as M ~map[K]V
		for i := range u.NumEmbeddeds() {
			if un, ok := u.EmbeddedType(i).(*types.Union); ok {
				for j := range un.Len() {
					if isMap(un.Term(j).Type()) {
						return true
					}
				}
			}
		}
	}
	return false
}

// callee names the package and function of a call to a package's function.
func callee(info *types.Info, c *ast.CallExpr) (pkg, name string) {
	fun := ast.Unparen(c.Fun)
	if ix, ok := fun.(*ast.IndexExpr); ok {
		fun = ix.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	p, ok := info.Uses[id].(*types.PkgName)
	if !ok {
		return "", ""
	}
	return p.Imported().Path(), sel.Sel.Name
}

// TestPureRefuses proves that each rule can fail, and what is allowed.
func TestPureRefuses(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"clock", `import "time"; func f() time.Time { return time.Now() }`, "time.Now"},
		{"clock as a value", `import "time"; var now = time.Now`, "time.Now"},
		{"renamed clock", `import x "time"; func f() { x.Sleep(1) }`, "time.Sleep"},
		{"goroutine", `func f() { go f() }`, "go statement"},
		{"channel", `var c chan int`, "channel"},
		{"receive", `func f(c <-chan int) int { return <-c }`, "channel"},
		{"sync", `import _ "sync"`, "import of sync"},
		{"files", `import _ "os"`, "import of os"},
		{"chance", `import _ "math/rand/v2"`, "import of math/rand/v2"},
		{"range over a map", `func f(m map[int]int) { for range m { f(nil) } }`, "range over a map"},
		{"range over a named map", `type M map[int]int; func f(m M) { for k := range m { _ = k } }`, "range over a map"},
		{"range over map keys", `import "maps"; func f(m map[int]int) { for k := range maps.Keys(m) { _ = k } }`, "maps.Keys outside"},
		{"collected keys", `import ("maps"; "slices"); func f(m map[int]int) []int { return slices.Collect(maps.Values(m)) }`, "maps.Values outside"},
		{"generic map", `func f[M ~map[int]int](m M) { for range m { f[M](nil) } }`, "range over a map"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := impuritiesOf(t, c.body)
			if len(got) == 0 || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	fine := `import ("maps"; "slices"; "time")
func f(m map[int]int, now time.Time, s []int) time.Time {
	for _, k := range slices.Sorted(maps.Keys(m)) { delete(m, k) }
	for range s { m[1]++ }
	return now.Add(time.Second)
}`
	if got := impuritiesOf(t, fine); len(got) != 0 {
		t.Errorf("refused what is allowed: %q", got)
	}
}

func impuritiesOf(t *testing.T, body string) []string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", "package x\n"+body, 0)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil), Error: func(error) {}}
	_, _ = conf.Check("x", fset, []*ast.File{f}, info) // an unused import is an error, and what the test is about
	return impurities(fset, f, info)
}
