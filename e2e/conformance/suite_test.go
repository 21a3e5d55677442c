//go:build e2e && linux

package conformance_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/e2e/harness"
)

// verdicts is what one run of the suite found.
type verdicts struct {
	order    []string        // scenarios in the order they ran
	passed   map[string]bool // scenario → verdict
	unscored map[string]bool // scenarios that do not count
	output   string
}

var (
	verdictLine  = regexp.MustCompile(`^(✓|✗) ([\w.-]+): \d+ passed, \d+ failed`)
	unscoredLine = regexp.MustCompile(`^ +(?:✓|✗) ([\w.-]+) \(`)
)

// runSuite runs the scenarios a revision requires against a URL.
func runSuite(t *testing.T, url, revision string) *verdicts {
	t.Helper()
	cmd := exec.CommandContext(harness.Context(t, 5*time.Minute), harness.Node(t),
		harness.Peer(t, "@modelcontextprotocol", "conformance", "dist", "index.js"),
		"server", "--url", url, "--requirements", revision, "--timeout", "10000", "-o", t.TempDir())
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	v := parseVerdicts(string(out))
	if len(v.order) == 0 {
		t.Fatalf("the suite ran no scenario: %v\n%s", err, out)
	}
	return v
}

func parseVerdicts(output string) *verdicts {
	v := &verdicts{passed: map[string]bool{}, unscored: map[string]bool{}, output: output}
	_, summary, _ := strings.Cut(output, "=== SUMMARY ===")
	for line := range strings.Lines(summary) {
		if m := verdictLine.FindStringSubmatch(line); m != nil {
			v.order = append(v.order, m[2])
			v.passed[m[2]] = m[1] == "✓"
		} else if m := unscoredLine.FindStringSubmatch(line); m != nil {
			v.unscored[m[1]] = true
		}
	}
	return v
}

// score counts the required scenarios and those that pass.
func (v *verdicts) score() (passed, required int) {
	for name, ok := range v.passed {
		if !v.unscored[name] {
			required++
			if ok {
				passed++
			}
		}
	}
	return passed, required
}

// excerpt returns what the suite printed about one scenario.
func (v *verdicts) excerpt(name string) string {
	_, text, _ := strings.Cut(v.output, "=== Running scenario: "+name+" ===")
	text, _, _ = strings.Cut(text, "=== ")
	if i := strings.Index(v.output, "✗ "+name+":"); i >= 0 {
		text += v.output[i:min(len(v.output), i+1500)]
	}
	return text
}

// expectedFailures reads the list: revision and cell → scenarios.
func expectedFailures(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("expected.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list := map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		switch words := strings.Fields(line); len(words) {
		case 0:
		case 4:
			where := strings.Join(words[:3], " ")
			list[where] = append(list[where], words[3])
		default:
			t.Fatalf("expected.txt: %q is no revision, cell of two words and scenario", line)
		}
	}
	return list
}

// complaints compares the verdicts with the expected failures.
func complaints(v *verdicts, expected []string) []string {
	var all []string
	for _, name := range expected {
		if _, ran := v.passed[name]; !ran {
			all = append(all, name+" is listed as an expected failure but did not run")
		}
	}
	for _, name := range v.order {
		listed := slices.Contains(expected, name)
		switch ok := v.passed[name]; {
		case ok && listed:
			all = append(all, name+" passes: take it off the list of expected failures")
		case !ok && !listed && !v.unscored[name]:
			all = append(all, name+" fails and is not on the list of expected failures")
		}
	}
	return all
}

// table renders scenario × cell.
func table(revision string, cells []string, results map[string]*verdicts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-50s", revision)
	for _, c := range cells {
		fmt.Fprintf(&b, " %-14s", c)
	}
	b.WriteString("\n")
	for _, name := range results[cells[0]].order {
		note := ""
		if results[cells[0]].unscored[name] {
			note = " (not scored)"
		}
		fmt.Fprintf(&b, "%-50s", name+note)
		for _, c := range cells {
			verdict := "FAIL"
			if ok, ran := results[c].passed[name]; ok {
				verdict = "ok"
			} else if !ran {
				verdict = "-"
			}
			fmt.Fprintf(&b, " %-14s", verdict)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%-50s", "required scenarios that pass")
	for _, c := range cells {
		passed, required := results[c].score()
		fmt.Fprintf(&b, " %-14s", fmt.Sprintf("%d/%d", passed, required))
	}
	return b.String()
}
