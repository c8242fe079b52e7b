package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listed is what `go list -json` says about a package.
type listed struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func goList(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = moduleRoot(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var ps []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return ps
		}
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
}

func TestFloors(t *testing.T) {
	for _, problem := range checkFloors(Floors, goList(t)) {
		t.Error(problem)
	}
}

// checkFloors compares what packages import with the table.
func checkFloors(rows []Row, packages []listed) []string {
	at := map[string]int{}
	for i, r := range rows {
		at[r.path()] = i
	}
	var problems []string
	for _, p := range packages {
		if _, ok := unhoused[p.ImportPath]; ok {
			continue
		}
		i, ok := at[p.ImportPath]
		if !ok {
			problems = append(problems, p.ImportPath+" is in no row of the table: decide its floor in internal/lint/floors.go")
			continue
		}
		for _, imp := range p.Imports {
			if why := mayImport(rows, at, i, imp, false); why != "" {
				problems = append(problems, why)
			}
		}
		for _, imp := range append(p.TestImports, p.XTestImports...) {
			if why := mayImport(rows, at, i, imp, true); why != "" {
				problems = append(problems, "in a test: "+why)
			}
		}
	}
	return problems
}

// mayImport says why row i may not import the package imp, or nothing.
func mayImport(rows []Row, at map[string]int, i int, imp string, inTest bool) string {
	if !strings.HasPrefix(imp, Module+"/") || imp == rows[i].path() {
		return ""
	}
	j, ok := at[imp]
	if !ok {
		return fmt.Sprintf("%s imports %s, which is in no row of the table", rows[i].Package, imp)
	}
	from, to := rows[i], rows[j]
	switch {
	case to.Floor < from.Floor:
		return ""
	case inTest && (to.TestSupport || to.Floor == from.Floor):
		return ""
	case to.Floor > from.Floor:
		return fmt.Sprintf("%s (floor %d) imports %s (floor %d: %s): a package knows only what stands below it; "+
			"declare the little interface that you need and let broker fill it in", from.Package, from.Floor, to.Package, to.Floor, to.Purpose)
	case to.TestSupport:
		return fmt.Sprintf("%s imports %s, which is for tests only", from.Package, to.Package)
	case j > i:
		return fmt.Sprintf("%s imports %s, which stands after it on floor %d: within a floor the order of the table decides", from.Package, to.Package, from.Floor)
	}
	return ""
}

// TestFloorsRefuses proves that the check can fail.
func TestFloorsRefuses(t *testing.T) {
	in := func(s string) string { return Module + "/internal/" + s }
	for _, c := range []struct {
		name string
		p    listed
		want string
	}{
		{"upwards", listed{ImportPath: in("storage"), Imports: []string{in("replica")}}, "knows only what stands below"},
		{"sideways", listed{ImportPath: in("kafka"), Imports: []string{in("wire")}}, "order of the table decides"},
		{"unknown package", listed{ImportPath: in("helpers")}, "is in no row"},
		{"unknown import", listed{ImportPath: in("api"), Imports: []string{in("helpers")}}, "is in no row"},
		{"test upwards", listed{ImportPath: in("storage"), TestImports: []string{in("api")}}, "in a test"},
		{"test support in product", listed{ImportPath: in("auth"), Imports: []string{in("metastore/storetest")}}, "for tests only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := checkFloors(Floors, []listed{c.p})
			if len(got) != 1 || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want one problem with %q", got, c.want)
			}
		})
	}
	ok := []listed{
		{ImportPath: in("storage"), Imports: []string{in("kafka"), "fmt"}, TestImports: []string{Module + "/brokertest"}},
		{ImportPath: in("wire"), Imports: []string{in("batch")}},
	}
	if got := checkFloors(Floors, ok); len(got) != 0 {
		t.Errorf("refused what is allowed: %q", got)
	}
}

// TestArchitectureNamesThePackages keeps the document in step with the table.
func TestArchitectureNamesThePackages(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(moduleRoot(t), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Floors {
		name := strings.TrimPrefix(r.Package, "/")
		if !strings.Contains(string(text), "`"+name+"`") && !strings.Contains(string(text), "**`"+name+"`**") {
			t.Errorf("ARCHITECTURE.md does not name `%s`", name)
		}
	}
}

func TestFloorsTable(t *testing.T) {
	floor := 0
	seen := map[string]bool{}
	for _, r := range Floors {
		if r.Floor < floor {
			t.Errorf("%s: floor %d after floor %d", r.Package, r.Floor, floor)
		}
		floor = r.Floor
		if seen[r.Package] {
			t.Errorf("%s stands twice", r.Package)
		}
		seen[r.Package] = true
		if r.Purpose == "" {
			t.Errorf("%s has no purpose", r.Package)
		}
	}
}
