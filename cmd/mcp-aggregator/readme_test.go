package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root of the project, seen from here.
const project = "../.."

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(project, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// blocks are the code blocks of one language.
func blocks(text, language string) (out []string) {
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// ours are the arguments of this program wherever a text starts it, in shell words or
// in the configuration of a client.
func ours(text string) (commands [][]string) {
	for _, block := range blocks(text, "sh") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, "#")
			if _, args, ok := strings.Cut(line, "bin/mcp-aggregator "); ok {
				commands = append(commands, strings.Fields(args))
			}
		}
	}
	for _, m := range regexp.MustCompile(`bin/mcp-aggregator", "args": \[(.*?)\]`).FindAllStringSubmatch(text, -1) {
		commands = append(commands, strings.Fields(strings.NewReplacer(`"`, "", ",", " ").Replace(m[1])))
	}
	return commands
}

// flagWord finds flags, also in a list with slashes or commas.
var flagWord = regexp.MustCompile(`--[a-z][a-z-]*`)

// wantFlags fails unless the help of a command knows each flag in words.
func wantFlags(t *testing.T, command, words string) {
	t.Helper()
	help, err := exec.Command("mcp-aggregator", command, "-h").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "mcp-aggregator "+command) {
		t.Errorf("there is no command %s: %v", command, err)
	}
	for _, flag := range flagWord.FindAllString(words, -1) {
		if !regexp.MustCompile(`(?m)^ +(-\w, )?` + flag + `\b`).Match(help) {
			t.Errorf("%s has no flag %s", command, flag)
		}
	}
}

func TestReadmeNamesCommandsAndFlagsThatExist(t *testing.T) {
	text := readme(t)
	commands := ours(text)
	if len(commands) < 7 {
		t.Errorf("found only %q", commands)
	}
	for _, args := range commands {
		wantFlags(t, args[0], strings.Join(args[1:], " "))
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z]+)[^`]*`(.*)\\|$").FindAllStringSubmatch(text, -1)
	if len(rows) < 5 {
		t.Errorf("found only %q", rows)
	}
	for _, row := range rows {
		for _, name := range regexp.MustCompile("^(, `[a-z]+`)*").FindAllString(row[2], 1) {
			for _, more := range regexp.MustCompile("[a-z]+").FindAllString(name, -1) {
				wantFlags(t, more, "")
			}
		}
		wantFlags(t, row[1], row[2])
	}
}

func TestReadmeNamesTargetsThatExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(project, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9]+)").FindAllStringSubmatch(readme(t), -1)
	if len(targets) == 0 {
		t.Error("no target is named")
	}
	for _, m := range targets {
		if !strings.Contains(string(makefile), "\n"+m[1]+":") {
			t.Errorf("there is no target %s", m[1])
		}
	}
}

// TestReadmeCommandsRun runs what ends by itself and needs nothing from outside.
func TestReadmeCommandsRun(t *testing.T) {
	ran := 0
	for _, args := range ours(readme(t)) {
		if args[0] != "list" && args[0] != "call" {
			continue
		}
		cmd := exec.Command("mcp-aggregator", args...)
		cmd.Dir = project
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", args, err, out)
		}
		ran++
	}
	if ran < 2 {
		t.Errorf("only %d commands ran", ran)
	}
}

func TestReadmeConfigurationsLoad(t *testing.T) {
	text := readme(t)
	files := map[string][]string{"mcp.yaml": blocks(text, "yaml"), "mcp.json": blocks(text, "json")}
	for name, contents := range files {
		if len(contents) == 0 {
			t.Errorf("no example of %s", name)
		}
		for _, content := range contents {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("mcp-aggregator", "validate", "--config", path)
			cmd.Env = append(os.Environ(), "HOME=/home/somebody", "SEARCH_TOKEN=secret")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s", content, out)
			}
		}
	}
}
