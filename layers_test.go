// Package layers_test holds the rules about who may import whom.
package layers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "mcp-aggregator"

// layers says how high each package stands. A package imports only packages of
// lower layers: never upwards, never sideways.
var layers = map[string]int{
	"cmd/mcp-aggregator": 8,
	"bench":              8,
	"e2e":                8,
	"internal/app":       7,

	"internal/downstream": 6,
	"internal/admin":      6,

	"internal/router": 5,

	"internal/bridge":   4,
	"internal/upstream": 4,

	"internal/catalog": 3,
	"internal/results": 3,
	"internal/authz":   3,
	"internal/store":   3,

	"internal/config":    2,
	"internal/mask":      1,
	"internal/summarize": 1,

	"internal/arguments": 0,
	"internal/breaker":   0,
	"internal/builtin":   0,
	"internal/digest":    0,
	"internal/excerpt":   0,
	"internal/fault":     0,
	"internal/filter":    0,
	"internal/keep":      0,
	"internal/limit":     0,
	"internal/local":     0,
	"internal/mcptest":   0,
	"internal/telemetry": 0,
	"internal/tokens":    0,
	"internal/wire":      0,
}

// restricted names foreign packages that only some of ours may import.
var restricted = []struct {
	path string
	ours func(pkg string) bool
	why  string
}{
	{"gopkg.in/yaml.v3", func(pkg string) bool { return pkg == "internal/config" },
		"the configuration is read in one place"},
	{"github.com/modelcontextprotocol/go-sdk/mcp", func(pkg string) bool {
		return !slices.Contains([]string{"internal/wire", "internal/fault", "internal/catalog", "internal/router"}, pkg)
	}, "payloads travel as bytes in the middle of the program"},
	{"testing", func(pkg string) bool { return pkg == "internal/mcptest" || strings.HasPrefix(pkg, "e2e/") },
		"tests stay out of the program"},
}

type goPackage struct {
	ImportPath string
	Imports    []string
	Error      *struct{ Err string }
}

func TestImportsGoStrictlyDown(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, complaint := range check(p) {
			t.Error(complaint)
		}
	}
}

// check returns what is wrong with the imports of p, test files not counted.
func check(p goPackage) []string {
	var complaints []string
	pkg, _ := strings.CutPrefix(p.ImportPath, module+"/")
	mine, known := layerOf(pkg)
	for _, imp := range p.Imports {
		for _, r := range restricted {
			if imp == r.path && !r.ours(pkg) {
				complaints = append(complaints, fmt.Sprintf("%s imports %s: %s", pkg, imp, r.why))
			}
		}
		other, ours := strings.CutPrefix(imp, module+"/")
		if !ours || !known || sameTree(pkg, other) {
			continue
		}
		if theirs, ok := layerOf(other); ok && theirs >= mine {
			complaints = append(complaints, fmt.Sprintf("%s (layer %d) imports %s (layer %d)", pkg, mine, other, theirs))
		}
	}
	if !known && pkg != module && len(p.Imports) > 0 {
		complaints = append(complaints, fmt.Sprintf("%s has no layer: add it to the table in this test", pkg))
	}
	return complaints
}

// layerOf finds the layer of a package or of the nearest parent that has one.
func layerOf(pkg string) (int, bool) {
	for ; pkg != "."; pkg = path.Dir(pkg) {
		if layer, ok := layers[pkg]; ok {
			return layer, true
		}
	}
	return 0, false
}

// sameTree reports whether two packages belong to the same entry of the table,
// such as a command and its own sub-package.
func sameTree(a, b string) bool {
	return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,Error", "./...").Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("decoding go list: %v", err)
		}
		packages = append(packages, p)
	}
}

func TestTheRulesCanFail(t *testing.T) {
	tests := []struct {
		name string
		pkg  goPackage
		want string
	}{
		{"upwards", goPackage{ImportPath: module + "/internal/wire", Imports: []string{module + "/internal/config"}}, "layer 2"},
		{"sideways", goPackage{ImportPath: module + "/internal/bridge", Imports: []string{module + "/internal/upstream"}}, "layer 4"},
		{"from a sub-package", goPackage{ImportPath: module + "/internal/wire/sse", Imports: []string{module + "/internal/fault"}}, "layer 0"},
		{"YAML elsewhere", goPackage{ImportPath: module + "/internal/app", Imports: []string{"gopkg.in/yaml.v3"}}, "one place"},
		{"typed payloads in the middle", goPackage{ImportPath: module + "/internal/router", Imports: []string{restricted[1].path}}, "as bytes"},
		{"a package nobody placed", goPackage{ImportPath: module + "/internal/util", Imports: []string{"fmt"}}, "no layer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(check(tt.pkg), "\n")
			if !strings.Contains(got, tt.want) {
				t.Errorf("check found %q, want a complaint with %q", got, tt.want)
			}
		})
	}
	fine := goPackage{ImportPath: module + "/internal/app", Imports: []string{module + "/internal/router", module + "/internal/wire"}}
	if got := check(fine); len(got) > 0 {
		t.Errorf("check refused imports that go down: %q", got)
	}
}
