package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcp-aggregator/internal/config"
)

func TestReferencesInValues(t *testing.T) {
	variables := with(map[string]string{"A": "a", "YAML": "x, y: [z]\n- &q", "REF": "${A}"})
	cases := []struct{ what, text, want string }{
		{"plain text", "abc", "abc"},
		{"a variable", "${A}", "a"},
		{"a variable inside text", "x${A}y${A}z", "xayaz"},
		{"the Go template form", "{{.A}}-{{ .A }}", "a-a"},
		{"other templates stay", "{{A}} {{.A.B}} {{ range }} {", "{{A}} {{.A.B}} {{ range }} {"},
		{"an empty variable is set", "[${EMPTY}]", "[]"},
		{"a default", "${NONE:-d e}", "d e"},
		{"an empty default", "[${NONE:-}]", "[]"},
		{"a default for an empty variable", "${EMPTY:-d}", "d"},
		{"no default for a set variable", "${A:-d}", "a"},
		{"a reference in a default", "${NONE:-<${A}>}", "<a>"},
		{"a missing variable in a default that is not used", "${A:-${NONE}}", "a"},
		{"a default with braces of a template", "${NONE:-{{.A}}}", "a"},
		{"a default with escaped braces", `${NONE:-{{"{{"}}.A}}}`, "{{.A}}"},
		{"an escaped dollar", "$$x $${A} $$$${A}", "$x ${A} $${A}"},
		{"an escape before a reference", "$$${A}", "$a"},
		{"a lone dollar", "$A $ $1 a$", "$A $ $1 a$"},
		{"escaped braces", `{{"{{"}}.A}}`, "{{.A}}"},
		{"a value with YAML in it", "${YAML}", "x, y: [z]\n- &q"},
		{"a value with a reference in it", "${REF}", "${A}"},
	}
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			cfg := parse(t, "servers: {a: {command: x, args: ['"+c.text+"']}}", variables)
			if got := cfg.Servers[0].Args[0]; got != c.want {
				t.Errorf("%q becomes %q, want %q", c.text, got, c.want)
			}
		})
	}
}

func TestReferencesWorkForEveryKindOfValue(t *testing.T) {
	e := with(map[string]string{"BOOL": "false", "INT": "7", "SIZE": "1KiB", "TIME": "9s", "ENUM": "strict", "TYPE": "sse", "GLOB": "read_*"})
	c := parse(t, `
servers: {a: {type: "${TYPE}", url: "https://${TYPE}.example.com", enabled: "${BOOL}", tools: {allow: ["${GLOB}"]}, call_timeout: "${TIME}"}}
startup: ${ENUM}
start_concurrency: ${INT}
list_wait: "{{.TIME}}"
limits: {body: "${SIZE}"}
`, e)
	a := config.DefaultServer("a")
	a.Type, a.URL, a.Enabled, a.CallTimeout = config.TypeSSE, "https://sse.example.com", false, 9*time.Second
	a.Tools.Allow = []string{"read_*"}
	want := config.Default()
	want.Path, want.Servers = "test.yaml", []*config.Server{a}
	want.Startup, want.StartConcurrency, want.ListWait, want.Limits.Body = "strict", 7, 9*time.Second, 1024
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVariablesThatExpandToNothingAreMissed(t *testing.T) {
	cases := map[string]string{
		"{command: '${EMPTY}'}": "test.yaml:1:15: servers.a.command: is empty after its variables are replaced; type stdio needs the program to start",
		"{url: '${EMPTY}'}":     "test.yaml:1:15: servers.a.url: is empty after its variables are replaced; type http needs the address, beginning with http:// or https://",
	}
	for server, want := range cases {
		_, err := config.Parse("test.yaml", []byte("servers: {a: "+server+"}"), env)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", server, err, want)
		}
	}
}

// TestEveryVariableOverridesItsSetting goes through all settings that have a variable: the variable wins over
// the file, which wins over the default, and a wrong value names the variable without showing it.
func TestEveryVariableOverridesItsSetting(t *testing.T) {
	seen := map[string]string{}
	for _, s := range config.Settings() {
		if strings.Contains(s.Path, ".NAME") || strings.HasPrefix(s.Kind, "a mapping") {
			if len(s.Env) > 0 {
				t.Errorf("%s has the variable %s", s.Path, s.Env)
			}
			continue
		}
		if want := "MCP_" + strings.ToUpper(strings.ReplaceAll(s.Path, ".", "_")); s.Env[0] != want {
			t.Errorf("%s has the variable %q, want %s", s.Path, s.Env[0], want)
		}
		for _, name := range s.Env {
			if other, twice := seen[name]; twice {
				t.Errorf("%s and %s share %s", s.Path, other, name)
			}
			seen[name] = s.Path
			checkOverride(t, s, name)
		}
	}
	for _, name := range []string{"MCP_HTTP_ADDR", "MCP_LIST_WAIT", "MCP_CATALOG_PAGE_SIZE", "MCP_LIMITS_BODY", "MCP_LOG_LEVEL",
		"MCP_RETRY_MAX_ATTEMPTS", "MCP_RETRY_BASE_MS", "MCP_RETRY_FACTOR", "MCP_RETRY_MAX_DELAY_MS", "MCP_CIRCUIT_FAILURE_THRESHOLD",
		"MCP_CIRCUIT_COOLDOWN", "MCP_CIRCUIT_HALF_OPEN_MAX", "MCP_INVOCATION_TIMEOUT_MS"} {
		if seen[name] == "" {
			t.Errorf("there is no %s", name)
		}
	}
}

// checkOverride tries one variable of one setting.
func checkOverride(t *testing.T, s config.Setting, name string) {
	t.Helper()
	inFile, inEnv := sample(s, 0), sample(s, 1)
	src := file(s.Path, inFile)
	fromFile := parse(t, src, env)
	fromEnv := parse(t, src, with(map[string]string{name: inEnv}))
	want := parse(t, file(s.Path, inEnv), env)
	if diff := cmp.Diff(want, fromEnv); diff != "" {
		t.Errorf("%s=%s (-want +got):\n%s", name, inEnv, diff)
	}
	if cmp.Equal(fromFile, fromEnv) {
		t.Errorf("%s=%s changes nothing", name, inEnv)
	}
	if diff := cmp.Diff(fromFile, parse(t, src, with(map[string]string{name: ""}))); diff != "" {
		t.Errorf("empty %s counts as set:\n%s", name, diff)
	}
	if s.Kind == "text" && len(s.Enum) == 0 {
		return // takes anything
	}
	_, err := config.Parse("test.yaml", []byte(src), with(map[string]string{name: "hunter2 []/"}))
	if err == nil {
		t.Errorf("%s takes nonsense", name)
	} else if ps := problems(t, err); len(ps) != 1 || ps[0].File != "environment" || ps[0].Path != s.Path || !strings.HasPrefix(ps[0].Message, name+": ") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%s: %v", name, err)
	}
}

// A number alone counts in the unit of the variable's name or, for the cool-down, in seconds.
func TestVariablesWithAUnitTakeBareNumbers(t *testing.T) {
	c := parse(t, "servers: {a: {builtin: notes}, b: {builtin: notes, call_timeout: 1h}}", with(map[string]string{
		"MCP_RETRY_BASE_MS": "250", "MCP_RETRY_MAX_DELAY_MS": "4000", "MCP_CIRCUIT_COOLDOWN": "90", "MCP_INVOCATION_TIMEOUT_MS": "1500", "MCP_RETRY_FACTOR": "1.5"}))
	got := []any{c.Retry.Base, c.Retry.MaxDelay, c.Retry.Factor, c.Breaker.Cooldown, c.Servers[0].CallTimeout, c.Servers[1].CallTimeout}
	want := []any{250 * time.Millisecond, 4 * time.Second, 1.5, 90 * time.Second, 1500 * time.Millisecond, time.Hour}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// sample returns one of two values that a setting takes, neither its default.
func sample(s config.Setting, i int) string {
	if len(s.Enum) > 1 {
		return []string{s.Enum[0], s.Enum[1]}[i]
	}
	switch {
	case s.Path == "admin.token":
		return []string{"sixteen-letters-a", "sixteen-letters-b"}[i]
	case s.Path == "state_key":
		return []string{strings.Repeat("0a", 32), strings.Repeat("0b", 32)}[i]
	case s.Path == "admin.addr":
		return []string{"127.0.0.1:1", "off"}[i]
	case s.Kind == "a number":
		return []string{"2.5", "3.5"}[i]
	case s.Kind == "true or false":
		return []string{"true", "false"}[i]
	case strings.HasPrefix(s.Kind, "a time"):
		return []string{"11s", "12s"}[i]
	case strings.HasPrefix(s.Kind, "a size"):
		return []string{"5KiB", "6KiB"}[i]
	case s.Kind == "a whole number":
		return []string{"17", "18"}[i]
	case strings.HasPrefix(s.Kind, "an address"):
		return []string{":1", ":2"}[i]
	case strings.HasPrefix(s.Kind, "a path"):
		return []string{"/a", "/b"}[i]
	case s.Path == "results.summarizers":
		return []string{"sampling", "digest"}[i]
	case s.Path == "mask.sets":
		return config.MaskSets[i]
	case s.Path == "mask.code":
		return []string{config.MaskCodes[0], config.MaskCodes[0] + "," + config.MaskCodes[0]}[i]
	case strings.HasSuffix(s.Path, "origins"):
		return []string{"https://a", "https://b"}[i]
	}
	return []string{"a", "b"}[i]
}

// file writes one setting.
func file(path, value string) string {
	if strings.HasPrefix(path, "http.allowed_") || path == "results.summarizers" || path == "mask.sets" || path == "mask.code" {
		value = "[" + value + "]"
	}
	if strings.HasPrefix(value, ":") {
		value = `"` + value + `"`
	}
	const servers = "servers: {a: {builtin: notes}}\n"
	keys := strings.Split(path, ".")
	return servers + strings.Join(keys, ": {") + ": " + value + strings.Repeat("}", len(keys)-1)
}

func TestListsInVariablesAreSeparatedByCommas(t *testing.T) {
	c := parse(t, "servers: {a: {builtin: notes}}", with(map[string]string{"MCP_HTTP_ALLOWED_HOSTS": "a.example.com, b.example.com:8443"}))
	if diff := cmp.Diff([]string{"a.example.com", "b.example.com:8443"}, c.HTTP.AllowedHosts); diff != "" {
		t.Error(diff)
	}
}

func TestProblemsOfFileAndEnvironmentComeTogether(t *testing.T) {
	_, err := config.Parse("test.yaml", []byte("log: {level: loud}\nservers: {a: {builtin: notes}}"), with(map[string]string{"MCP_LIMITS_PAGES": "0", "MCP_STARTUP": "stric"}))
	want := `test.yaml:1:14: log.level: expected debug, info, warn or error; got "loud"
environment: limits.pages: MCP_LIMITS_PAGES: must be at least 1
environment: startup: MCP_STARTUP: expected open or strict; did you mean "strict"?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
