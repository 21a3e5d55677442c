package config_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"mcp-aggregator/internal/config"
)

const root = "../../"

func example(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile(root + "config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

func TestTheExampleRunsAsItIs(t *testing.T) {
	src := example(t)
	if first, _, _ := strings.Cut(src, "\n"); first != "# yaml-language-server: $schema=./config.schema.json" {
		t.Errorf("the first line does not point editors to the schema: %s", first)
	}
	c := parse(t, src, func(string) (string, bool) { return "", false })
	var names []string
	for _, s := range c.Servers {
		names = append(names, s.String())
	}
	if diff := cmp.Diff([]string{"demo (builtin: everything)", "notes (builtin: notes)"}, names); diff != "" {
		t.Error(diff)
	}
}

// commented finds the settings of the example that are commented out: "#key:", no blank behind the #.
var commented = regexp.MustCompile(`(?m)^( *)#([a-z_0-9]+:)`)

// TestTheExampleIsRightWhenUncommented removes the # of every setting at once. What then loads must hold
// the defaults everywhere outside servers, so the values shown are the true ones.
func TestTheExampleIsRightWhenUncommented(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir)
	src := commented.ReplaceAllString(example(t), "$1$2")
	c, err := config.Parse(filepath.Join(dir, "config.yaml"), []byte(src), env)
	if err != nil {
		t.Fatal(err)
	}
	demo := config.DefaultServer("demo")
	demo.Type, demo.Builtin, demo.Prefix = config.TypeBuiltin, "everything", new("demo")
	demo.Tools = config.Filter{Allow: []string{"*"}, Deny: []string{"delete_*"}}
	demo.Prompts.Allow, demo.Resources.Allow = []string{"*"}, []string{"*"}
	demo.ToolVersions = map[string][]string{"echo": {"1.0.0"}}
	demo.Queue = "heavy"
	demo.Results = config.ResultRules{Policy: "digest", Structured: "keep", Summarizers: []string{"sampling"}}
	demo.Mask.Sets, demo.Mask.Code = []string{"all"}, []string{"kubernetes_secret"}
	demo.Mask.Patterns = map[string]string{"ticket": "SECRET-[0-9]+"}
	demo.ToolOverrides = map[string]*config.ToolOverride{"echo": {Queue: "heavy", Idempotent: new(true),
		Results:  config.ResultRules{Policy: "pass", Structured: "keep", Summarizers: []string{"digest"}},
		Fallback: []config.Fallback{{Tool: "notes.list_notes", Arguments: map[string]string{"message": "filter"}}}}}
	if !c.Servers[0].Equal(demo) {
		t.Errorf("demo does not show the defaults: %+v", c.Servers[0])
	}
	want := config.Default()
	want.Path, want.Servers = c.Path, c.Servers
	want.Queues = map[string]*config.Queue{"heavy": {Slots: 4, Waiting: 64, Timeout: 30 * time.Second}}
	want.Summarizers = map[string]*config.Summarizer{"local": {Type: "openai", URL: "http://127.0.0.1:11434/v1", Model: "llama3.2", Headers: map[string]string{"X-Team": "tools"}}}
	want.Mask.Patterns = map[string]string{"employee": "E-[0-9]{6}"}
	want.Results.Summarizers, want.Mask.Sets, want.Mask.Code = c.Results.Summarizers, c.Mask.Sets, c.Mask.Code // empty, not absent
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("values in the example are not the defaults (-default +example):\n%s", diff)
	}
}

func TestTheExampleMentionsEveryKey(t *testing.T) {
	var tree map[string]any
	src := commented.ReplaceAllString(example(t), "$1$2")
	if err := yaml.Unmarshal([]byte(src), &tree); err != nil {
		t.Fatal(err)
	}
	mentioned := map[string]bool{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		mentioned[path] = true
		if m, ok := v.(map[string]any); ok {
			for k, v := range m {
				if path == "servers" || path == "queues" || path == "summarizers" || path == "servers.NAME.tool_overrides" {
					k = "NAME"
				}
				walk(strings.TrimPrefix(path+"."+k, "."), v)
			}
		}
		if list, ok := v.([]any); ok {
			for _, v := range list {
				walk(path+"[]", v)
			}
		}
	}
	walk("", tree)
	for _, s := range config.Settings() {
		if !mentioned[s.Path] {
			t.Errorf("the example does not mention %s", s.Path)
		}
	}
	for line := range strings.Lines(src) {
		if strings.HasPrefix(line, "    ") && !strings.Contains(line, "#") && strings.Contains(example(t), "#"+strings.TrimSpace(line)) {
			checkSelfExplaining(t, line)
		}
	}
}

// checkSelfExplaining lets the lines of example servers go without a reason when their values are the example.
func checkSelfExplaining(t *testing.T, line string) {
	t.Helper()
	for _, key := range []string{"args", "url", "type", "tls", "tools", "prompts", "resources", "deny", "bearer_token", "id", "tool_versions", "tool_overrides"} {
		if strings.HasPrefix(strings.TrimSpace(line), key+":") {
			return
		}
	}
	t.Errorf("the example gives no reason for: %s", strings.TrimSpace(line))
}

func TestTheSchemaFileIsCurrent(t *testing.T) {
	golden(t, root+"config.schema.json", string(config.Schema()))
}

// TestTheSchemaAgreesWithLoad checks that an editor accepts what Load accepts, and sees the mistakes a schema can see.
func TestTheSchemaAgreesWithLoad(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(config.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	validate := func(src string) error {
		var v any
		if err := yaml.Unmarshal([]byte(src), &v); err != nil {
			t.Fatal(err)
		}
		return resolved.Validate(v)
	}
	for _, path := range append(files(t, "*.good.yaml"), root+"config.example.yaml") {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(string(src)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := validate(commented.ReplaceAllString(example(t), "$1$2")); err != nil {
		t.Errorf("the uncommented example: %v", err)
	}
	bad := []string{
		"{}", "servers: {}", "servers: {a: {}}", "servers: {a b: {command: x}}", "servers: {a: {command: x, url: 'http://x'}}",
		"{servers: {a: {command: x}}, lst_wait: 3s}", "{servers: {a: {command: x}}, list_wait: 3}", "{servers: {a: {command: x}}, startup: opn}",
		"{servers: {a: {command: x}}, limits: {body: 4Mib}}", "{servers: {a: {command: x}}, limits: {pages: 0}}", "servers: {a: {command: x, args: x}}",
		"servers: {a: {command: x, enabled: maybe}}", "servers: {a: {command: x, type: stdoi}}", "servers: {a: {command: x, comand: y}}",
	}
	for _, src := range bad {
		if validate(src) == nil {
			t.Errorf("the schema accepts %s", src)
		}
		if _, err := config.Parse("test.yaml", []byte(src), env); err == nil {
			t.Errorf("Load accepts %s", src)
		}
	}
}

func TestTheReferenceIsCurrent(t *testing.T) {
	golden(t, root+"docs/configuration.md", reference())
}

// reference is docs/configuration.md.
func reference() string {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	section := ""
	for _, s := range config.Settings() {
		if name := sectionOf(s.Path); name != section {
			section = name
			fmt.Fprintf(&b, "\n## %s\n\n", section)
			if strings.HasPrefix(s.Path, "servers.") {
				b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
			} else {
				b.WriteString("| key | value | default | variable | meaning |\n|---|---|---|---|---|\n")
			}
		}
		b.WriteString(row(s))
	}
	return b.String()
}

func sectionOf(path string) string {
	if first, _, nested := strings.Cut(path, "."); first == "servers" {
		return "servers.NAME"
	} else if nested {
		return first
	}
	return "Start of the servers"
}

func row(s config.Setting) string {
	path := strings.TrimPrefix(s.Path, "servers.NAME.")
	value, _, _ := strings.Cut(s.Kind, " such as")
	if len(s.Enum) > 0 {
		value = "`" + strings.Join(s.Enum, "` `") + "`"
	}
	if s.Max != "" {
		low := s.Min
		if low == "" {
			low = "0"
		}
		value += ", " + low + " to " + s.Max
	}
	def := ""
	if s.Default != "" {
		def = "`" + s.Default + "`"
	}
	doc := s.Doc
	if len(s.Types) > 0 {
		doc += " Only with `" + strings.Join(s.Types, "` `") + "`."
	}
	if len(s.Env) == 0 {
		return fmt.Sprintf("| `%s` | %s | %s | %s |\n", path, value, def, doc)
	}
	return fmt.Sprintf("| `%s` | %s | %s | `%s` | %s |\n", path, value, def, strings.Join(s.Env, "` `"), doc)
}

const referenceHead = `# Configuration

<!-- Written by: go test ./internal/config -update -->

One YAML file, given with ` + "`--config`" + `. Keys are strict: whatever is unknown, of the wrong type or contradictory is reported
with file, line and column, all of it at once. ` + "`config.example.yaml`" + ` runs as it is and mentions every key;
` + "`config.schema.json`" + ` gives editors completion and checks.

**Values.** Times are written ` + "`1.5s`, `2m`, `1h30m`" + `; sizes ` + "`65536`, `64KiB`, `4MiB`, `1MB`" + `. A key without a value keeps its default.
Anchors, aliases and merge keys work. The paths in ` + "`cwd` and `tls`" + ` are relative to the folder of the file.

**Environment in values.** Every value may hold ` + "`${VAR}`, `${VAR:-default}` or `{{.VAR}}`" + `. The default also stands in for an empty variable; a
variable that is not set and has no default is an error. ` + "`$$`" + ` is a dollar sign, ` + "`{{\"{{\"}}`" + ` two braces, a ` + "`$`" + ` before anything else is itself.
In ` + "`{ }`, `[ ]`" + ` and where a value begins with ` + "`{`" + `, YAML wants quotes: ` + "`\"{{.VAR}}\"`" + `. What a variable holds never becomes structure and is never shown in messages.

**Environment over settings.** Every setting outside ` + "`servers`" + ` that is no mapping of names has a variable that wins over the file, which wins over the default.
An empty variable counts as absent. Lists are separated by commas.

**Files of other programs.** A JSON file with ` + "`mcpServers`" + ` (Claude Desktop, Claude Code, Cursor and others) or ` + "`servers`" + ` (VS Code) works in place of the YAML file,
comments and trailing commas included. Besides their own settings such servers may have any of those below. Settings that mean nothing here are
skipped and unknown ones noted, not refused. ` + "`${env:VAR}`, `${workspaceFolder}`, `${userHome}` and `envFile`" + ` work as in the editor; what the editor would ask for,
` + "`${input:api-key}`" + `, is taken from the variable ` + "`MCP_INPUT_API_KEY`" + `, else from the input's default. Names such as ` + "`io.github.acme/tool`" + ` become ` + "`io.github.acme-tool`" + `.

**Servers.** Each server has one of ` + "`command`, `url` and `builtin`" + `. Its name consists of letters, digits and ` + "`_ . -`" + ` (at most 64, the first a letter or digit)
and comes before the names of its tools and prompts.
`

// writeCertificate writes the files that the example's tls section names.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	if err := os.Mkdir(filepath.Join(dir, "certs"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"ca.pem": certPEM, "client.pem": certPEM, "client.key": keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, "certs", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
