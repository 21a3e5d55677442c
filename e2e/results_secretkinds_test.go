//go:build e2e && linux

package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
)

// A secret is one of a kind: how it stands in a text, and the part that nobody may see.
type secret struct {
	kind       string
	name       string // it has where it needs one to be known as a secret
	text, core string
}

// inText is the secret as it stands in a text.
func (s secret) inText() string {
	if s.name != "" {
		return s.name + "=" + s.text
	}
	return s.text
}

const (
	hexadecimal = "0123456789abcdef"
	capitals    = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// ofForm makes secrets that are known by their own form, named ones by their names.
func ofForm(kind, before, from string, n int) func(*rand.Rand) secret {
	return func(r *rand.Rand) secret {
		core := dense(r, from, n)
		return secret{kind: kind, text: before + core, core: core}
	}
}

func named(kind, name, from string, n int) func(*rand.Rand) secret {
	return func(r *rand.Rand) secret {
		core := dense(r, from, n)
		return secret{kind: kind, name: name, text: core, core: core}
	}
}

// dense draws n characters with digits among them, as real keys have.
func dense(r *rand.Rand, from string, n int) string {
	b := []byte(drawn(r, from, n))
	digits := "23456789"
	b[1], b[n/2], b[n-2] = digits[r.IntN(8)], digits[r.IntN(8)], digits[r.IntN(8)]
	return string(b)
}

func inBase64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// secretKinds are what the leaky server leaks.
var secretKinds = []func(*rand.Rand) secret{
	ofForm("AWS key id", "AKIA", capitals, 16),
	named("AWS secret key", "AWS_SECRET_ACCESS_KEY", alphanumeric+"/+", 40),
	ofForm("Google API key", "AIza", alphanumeric+"_-", 35),
	ofForm("Google OAuth token", "ya29.", alphanumeric+"_-", 60),
	ofForm("GitHub token", "ghp_", alphanumeric, 36),
	ofForm("GitHub app token", "ghs_", alphanumeric, 36),
	ofForm("GitHub fine-grained token", "github_pat_", alphanumeric, 82),
	ofForm("GitLab token", "glpat-", alphanumeric, 20),
	ofForm("Slack token", "xoxb-123456789012-123456789012-", alphanumeric, 24),
	ofForm("Slack webhook", "https://hooks.slack.com/services/T00000000/B00000000/", alphanumeric, 24),
	ofForm("Stripe key", "sk_live_", alphanumeric, 24),
	ofForm("Stripe webhook secret", "whsec_", alphanumeric, 32),
	ofForm("OpenAI key", "sk-proj-", alphanumeric, 120),
	ofForm("Anthropic key", "sk-ant-api03-", alphanumeric+"_-", 95),
	ofForm("Hugging Face token", "hf_", alphanumeric, 34),
	ofForm("npm token", "npm_", alphanumeric, 36),
	ofForm("PyPI token", "pypi-AgEIcHlwaS5vcmc", alphanumeric, 120),
	ofForm("Docker token", "dckr_pat_", alphanumeric, 27),
	ofForm("SendGrid key", "SG.abcdefghijkLMNOP012345.", alphanumeric, 43),
	ofForm("Twilio key", "SK", hexadecimal, 32),
	ofForm("DigitalOcean token", "dop_v1_", hexadecimal, 64),
	ofForm("Databricks token", "dapi", hexadecimal, 32),
	ofForm("Terraform token", "aB3dE6gH9jK2mN.atlasv1.", alphanumeric, 62),
	ofForm("Vault token", "hvs.", alphanumeric, 90),
	ofForm("Shopify token", "shpat_", hexadecimal, 32),
	ofForm("Grafana token", "glsa_", alphanumeric, 32),
	ofForm("New Relic key", "NRAK-", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 27),
	ofForm("Sentry token", "sntryu_", hexadecimal, 64),
	ofForm("Linear key", "lin_api_", alphanumeric, 40),
	ofForm("Azure storage key", "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=", alphanumeric, 86),
	ofForm("bearer header", "Authorization: Bearer ", alphanumeric, 40),
	ofForm("cookie", "Set-Cookie: session=", alphanumeric, 32),
	func(r *rand.Rand) secret {
		core := dense(r, alphanumeric, 20)
		text := inBase64("bob:" + core)
		return secret{kind: "basic header", text: "Authorization: Basic " + text, core: strings.TrimRight(text, "=")[6:]}
	},
	func(r *rand.Rand) secret {
		core := dense(r, alphanumeric, 16)
		return secret{kind: "password of a URL", text: anyOf(r, "postgres", "mongodb+srv", "amqp", "redis", "https") + "://bob:" + core + "@db.example.com:5432/app", core: core}
	},
	func(r *rand.Rand) secret {
		core := dense(r, alphanumeric+"_-", 43)
		return secret{kind: "JWT", text: "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI" + drawn(r, alphanumeric, 20) + "." + core, core: core}
	},
	named("password", "password", alphanumeric, 14),
	named("database password", "DB_PASSWORD", alphanumeric, 12),
	named("API key", "api_key", alphanumeric, 32),
	named("client secret", "client_secret", alphanumeric, 40),
	named("access token", "access_token", alphanumeric, 40),
	named("secret key", "SECRET_KEY", alphanumeric, 50),
	named("private token", "GITEA_TOKEN", hexadecimal, 40),
}

// privateKey makes a key of several lines.
func privateKey(r *rand.Rand) secret {
	core := dense(r, alphanumeric, 64)
	var b strings.Builder
	for range 12 {
		b.WriteString(drawn(r, alphanumeric+"+/", 64) + "\n")
	}
	name := anyOf(r, "RSA ", "EC ", "OPENSSH ", "")
	return secret{kind: "private key", text: "-----BEGIN " + name + "PRIVATE KEY-----\n" + b.String() + core + "\nab==\n-----END " + name + "PRIVATE KEY-----", core: core}
}

// A leak is an output of a tool that holds secrets.
type leak struct {
	text       string
	structured map[string]any // nil: it is text only
	secrets    []secret
}

const (
	leaks          = 100 // outputs
	secretsPerLeak = 100
)

// leakOf is the n-th output, the same in every process.
func leakOf(n int) (l leak) {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	for i := range secretsPerLeak {
		if i%25 == 24 {
			l.secrets = append(l.secrets, privateKey(r))
		} else {
			l.secrets = append(l.secrets, secretKinds[(n*secretsPerLeak+i)%len(secretKinds)](r))
		}
	}
	switch n % 6 {
	case 0:
		l.text = leakyLog(r, l.secrets)
	case 1:
		l.text = leakyEnv(r, l.secrets)
	case 2:
		l.text = leakyYAML(r, l.secrets)
	case 3:
		l.text = leakyRequests(r, l.secrets)
	case 4:
		l.text = leakyManifests(r, l.secrets)
	case 5:
		l.structured = leakyObject(r, l.secrets)
		raw, _ := json.MarshalIndent(l.structured, "", "  ")
		l.text = string(raw)
	}
	return l
}

func leakyLog(r *rand.Rand, secrets []secret) string {
	var b strings.Builder
	for i, s := range secrets {
		fmt.Fprintf(&b, "2026-09-14T06:%02d:%02d.%03dZ ", i/60, i%60, r.IntN(1000))
		switch text := strings.ReplaceAll(s.text, "\n", `\n`); {
		case s.name != "":
			b.WriteString(anyOf(r, "INFO starting with "+s.name+"="+text+" user=bob attempt=3\n", `{"level":"info","msg":"loaded","`+s.name+`":"`+text+"\",\"n\":3}\n",
				"DEBUG config: "+s.name+": "+text+"\n"))
		default:
			b.WriteString(anyOf(r, "ERROR request failed: "+text+" (attempt 3)\n", `level=info msg="sent `+text+`" status=200`+"\n", "WARN refused "+text+"\n"))
		}
		fmt.Fprintf(&b, "2026-09-14T06:%02d:%02d.%03dZ INFO served /orders/%d in %d ms, request %s\n", i/60, i%60, r.IntN(1000), r.IntN(9000), r.IntN(300), drawn(r, hexadecimal, 16))
	}
	return b.String()
}

func leakyEnv(r *rand.Rand, secrets []secret) string {
	var b strings.Builder
	b.WriteString("PATH=/usr/local/bin:/usr/bin\nHOME=/root\n")
	for i, s := range secrets {
		if s.name != "" {
			b.WriteString(anyOf(r, s.name+"="+s.text+"\n", "export "+s.name+"=\""+s.text+"\"\n", strings.ToUpper(s.name)+"='"+s.text+"'\n"))
			continue
		}
		fmt.Fprintf(&b, "SETTING_%d=%s\n", i, s.text)
	}
	return b.String()
}

func leakyYAML(r *rand.Rand, secrets []secret) string {
	var b strings.Builder
	for i, s := range secrets {
		text := strings.ReplaceAll(s.text, "\n", "\n      ")
		name := s.name
		if name == "" {
			name = fmt.Sprint("value", i)
		}
		fmt.Fprintf(&b, "service%d:\n  port: %d\n", i, 8000+i)
		if strings.Contains(text, "\n") {
			fmt.Fprintf(&b, "  %s: |\n      %s\n", name, text)
			continue
		}
		b.WriteString(anyOf(r, "  "+name+": "+text+"\n", "  "+name+": '"+text+"'\n", "  env:\n  - name: "+name+"\n    value: \""+text+"\"\n"))
	}
	return b.String()
}

func leakyRequests(r *rand.Rand, secrets []secret) string {
	var b strings.Builder
	for i, s := range secrets {
		fmt.Fprintf(&b, "GET /v1/items/%d HTTP/1.1\r\nHost: example.com\r\nX-Request-Id: %s\r\n", i, drawn(r, hexadecimal, 16))
		switch {
		case s.name != "":
			fmt.Fprintf(&b, "Referer: https://example.com/cb?state=%d&%s=%s&next=home\r\n\r\n", i, s.name, url.QueryEscape(s.text))
		case strings.Contains(s.text, ": "):
			b.WriteString(s.text + "\r\n\r\n")
		default:
			b.WriteString("\r\n" + s.text + "\r\n")
		}
	}
	return b.String()
}

// leakyManifests is Kubernetes output whose Secrets hold the secrets, in YAML and JSON.
func leakyManifests(r *rand.Rand, secrets []secret) string {
	var b strings.Builder
	var items []any
	for i, s := range secrets {
		name := fmt.Sprintf("key%d", i)
		if i%2 == 0 {
			items = append(items, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "type": "Opaque", "data": map[string]any{name: inBase64(s.text)}})
			continue
		}
		fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s%d\n  uid: %s\ntype: Opaque\ndata:\n  %s: %s\n---\n", i, drawn(r, hexadecimal, 32), name, inBase64(s.text))
	}
	raw, _ := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "    ")
	return b.String() + string(raw) + "\n"
}

func leakyObject(r *rand.Rand, secrets []secret) map[string]any {
	var rows []any
	for i, s := range secrets {
		row := map[string]any{"id": i, "host": "node-" + drawn(r, hexadecimal, 8), "ok": true}
		switch {
		case s.name == "":
			row["message"] = "got " + s.text + " from upstream"
		case i%3 == 0:
			row["env"] = []any{map[string]any{"name": s.name, "value": s.text}}
		case i%3 == 1:
			row["body"] = string(must(json.Marshal(map[string]any{s.name: s.text}))) // JSON in JSON
		default:
			row[s.name] = s.text
		}
		rows = append(rows, row)
	}
	return map[string]any{"rows": rows}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
