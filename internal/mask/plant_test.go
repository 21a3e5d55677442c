package mask_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/wire"
)

// A plant makes secrets of one kind: the text to put somewhere, and its core, which
// must be gone afterwards.
type plant struct {
	kind string
	make func(r *rand.Rand) (text, core string)
	key  string // the name it has where it needs one
}

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	alnum  = upper + lower + digits
	hexes  = "0123456789abcdef"
)

// from draws n characters; the first two make sure of a letter and a digit.
func from(r *rand.Rand, set string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = set[r.IntN(len(set))]
	}
	if strings.ContainsAny(set, digits) && n > 4 {
		b[n/2], b[n-2] = digits[1+r.IntN(9)], digits[1+r.IntN(9)]
	}
	return string(b)
}

func prefixed(kind, prefix, set string, n int) plant {
	return plant{kind: kind, make: func(r *rand.Rand) (string, string) {
		core := from(r, set, n)
		return prefix + core, core
	}}
}

func keyed(kind, key, set string, n int) plant {
	p := prefixed(kind, "", set, n)
	p.key = key
	return p
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

var plants = []plant{
	prefixed("aws_access_key_id", "AKIA", upper+"234567", 16), prefixed("aws_access_key_id", "ASIA", upper+"234567", 16),
	keyed("aws_secret_key", "AWS_SECRET_ACCESS_KEY", alnum+"/+", 40), keyed("aws_secret_key", "SecretAccessKey", alnum+"/+", 40),
	keyed("aws_session_token", "AWS_SESSION_TOKEN", alnum+"/+", 200), prefixed("gcp_api_key", "AIza", alnum+"_-", 35),
	prefixed("gcp_oauth_token", "ya29.", alnum+"_-", 60), prefixed("gcp_oauth_secret", "GOCSPX-", alnum, 28),
	{kind: "azure_key", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum+"+/", 86)
		return "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=" + core + "==;EndpointSuffix=core.windows.net", core
	}},
	{kind: "azure_sas", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum, 43)
		return "https://acc.blob.core.windows.net/c/b?sv=2024-01-01&sp=r&sig=" + core + "%3D", core
	}},
	prefixed("azure_client_secret", "abC8Q~", alnum+"_-~.", 32),
	prefixed("digitalocean_token", "dop_v1_", hexes, 64), keyed("heroku_api_key", "HEROKU_API_KEY", hexes, 36),
	prefixed("terraform_token", "aB3dE6gH9jK2mN.atlasv1.", alnum, 62), prefixed("vault_token", "hvs.", alnum+"_-", 95),
	prefixed("databricks_token", "dapi", hexes, 32), prefixed("doppler_token", "dp.pt.", alnum, 43),
	prefixed("github_token", "ghp_", alnum, 36), prefixed("github_token", "gho_", alnum, 36), prefixed("github_token", "ghu_", alnum, 36),
	prefixed("github_token", "ghs_", alnum, 36), prefixed("github_token", "ghr_", alnum, 76),
	prefixed("github_fine_grained_token", "github_pat_", alnum, 82), prefixed("gitlab_token", "glpat-", alnum+"_-", 20), prefixed("gitlab_token", "glrt-", alnum+"_-", 20),
	prefixed("atlassian_token", "ATATT3", alnum+"_-=", 180), prefixed("slack_token", "xoxb-123456789012-123456789012-", alnum, 24),
	prefixed("slack_token", "xapp-1-A012345-", alnum, 60), prefixed("slack_webhook", "https://hooks.slack.com/services/T00000000/B00000000/", alnum, 24),
	{kind: "telegram_token", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum+"_-", 33)
		return from(r, "123456789", 10) + ":AA" + core, core
	}},
	{kind: "discord_token", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum+"_-", 38)
		return strings.TrimRight(b64("1"+from(r, digits, 17)), "=") + ".Gabc1D." + core, core
	}},
	prefixed("discord_webhook", "https://discord.com/api/webhooks/123456789012345678/", alnum+"_-", 68),
	prefixed("stripe_key", "sk_live_", alnum, 24), prefixed("stripe_key", "rk_test_", alnum, 24), prefixed("stripe_webhook_secret", "whsec_", alnum, 32),
	prefixed("shopify_token", "shpat_", hexes, 32), prefixed("square_token", "sq0atp-", alnum+"_-", 22),
	prefixed("anthropic_key", "sk-ant-api03-", alnum+"_-", 95), prefixed("openai_key", "sk-proj-", alnum+"_-", 120), prefixed("openai_key", "sk-", alnum, 48),
	prefixed("huggingface_token", "hf_", alnum, 34), prefixed("groq_key", "gsk_", alnum, 52),
	{kind: "sendgrid_key", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum+"_-", 43)
		return "SG." + from(r, alnum, 22) + "." + core, core
	}},
	prefixed("twilio_key", "SK", hexes, 32), keyed("twilio_auth_token", "TWILIO_AUTH_TOKEN", hexes, 32), prefixed("mailgun_key", "key-", hexes, 32),
	prefixed("npm_token", "npm_", alnum, 36), prefixed("pypi_token", "pypi-AgEIcHlwaS5vcmc", alnum+"_-", 120), prefixed("docker_token", "dckr_pat_", alnum+"_-", 27),
	prefixed("rubygems_key", "rubygems_", hexes, 48), prefixed("grafana_token", "glsa_", alnum, 32+9), prefixed("newrelic_key", "NRAK-", upper+digits, 27),
	prefixed("sentry_token", "sntryu_", hexes, 64), prefixed("linear_key", "lin_api_", alnum, 40), prefixed("notion_token", "ntn_1", alnum, 44),
	{kind: "private_key", make: func(r *rand.Rand) (string, string) {
		var b strings.Builder
		for range 12 {
			b.WriteString(from(r, alnum+"+/", 64) + "\n")
		}
		core := from(r, alnum+"+/", 64)
		name := []string{"RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED ", "DSA "}[r.IntN(6)]
		return "-----BEGIN " + name + "PRIVATE KEY-----\n" + b.String() + core + "\n" + from(r, alnum, 22) + "==\n-----END " + name + "PRIVATE KEY-----\n", core
	}},
	{kind: "private_key", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum, 64)
		return "client-key-data: " + b64("-----BEGIN RSA PRIVATE KEY-----\n"+core+"\n-----END RSA PRIVATE KEY-----\n"), b64(core)[:60]
	}},
	{kind: "jwt", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum+"_-", 43)
		return strings.TrimRight(b64(`{"alg":"HS256","typ":"JWT"}`), "=") + "." + strings.TrimRight(b64(fmt.Sprintf(`{"sub":"%d"}`, r.Uint32())), "=") + "." + core, core
	}},
	prefixed("authorization", "Authorization: Bearer ", alnum+"_-.", 40),
	{kind: "authorization", make: func(r *rand.Rand) (string, string) {
		core := b64("bob:" + from(r, alnum, 20))
		return "authorization: Basic " + core, strings.TrimRight(core, "=")
	}},
	{kind: "url_password", make: func(r *rand.Rand) (string, string) {
		core := from(r, alnum, 14)
		return []string{"postgres", "mongodb+srv", "amqp", "redis", "https", "mysql"}[r.IntN(6)] + "://bob:" + core + "@db.example.com:5432/app", core
	}},
	prefixed("cookie", "Set-Cookie: session=", alnum, 32), prefixed("npmrc_auth", "//registry.npmjs.org/:_authToken=", hexes, 36),
	prefixed("pgpass", "db.example.com:5432:app:bob:", alnum, 14),
	prefixed("password", "jdbc:postgresql://db:5432/app?user=bob&password=", alnum, 14), prefixed("password", "Server=db;Uid=sa;Pwd=", alnum, 14),
	keyed("database_password", "DB_PASSWORD", alnum, 12), keyed("database_password", "PGPASSWORD", lower+digits, 10), keyed("password", "password", alnum+"!#%^*", 14),
	keyed("password", "spring.mail.password", alnum, 14), keyed("password", "adminPassword", alnum+"!_", 14), keyed("password", "passphrase", alnum, 18),
	keyed("api_key", "api_key", alnum, 32), keyed("api_key", "apiKey", hexes, 32), keyed("api_key", "X-API-Key", alnum, 40), keyed("secret", "client_secret", alnum, 40),
	keyed("secret", "jwtSecret", alnum, 32), keyed("token", "access_token", alnum, 40), keyed("token", "refreshToken", alnum, 40), keyed("token", "token", alnum, 40),
	keyed("token", "GITEA_TOKEN", hexes, 40), keyed("secret_key", "SECRET_KEY", alnum, 50), keyed("secret_key", "signingKey", alnum, 44), keyed("secret_key", "encryption-key", hexes, 64),
}

// A bed is a realistic output with a place for a secret.
type bed struct {
	name  string
	plain bool // also for secrets of more than one line, or that bring their own name
	put   func(r *rand.Rand, key, text string) string
}

func bedOf(name, format string) bed {
	return bed{name: name, put: func(_ *rand.Rand, key, text string) string {
		return strings.NewReplacer("$KEY", key, "$TEXT", text).Replace(format)
	}}
}

func plainBed(name, format string) bed {
	b := bedOf(name, format)
	b.plain = true
	return b
}

func quoted(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

var beds = []bed{
	bedOf("env", "PATH=/usr/bin:/bin\nHOME=/root\n$KEY=$TEXT\nLANG=C.UTF-8\n"),
	bedOf("env export", "export A=1\nexport $KEY=\"$TEXT\"\n"),
	bedOf("log", "2026-03-01T10:00:00Z INFO starting with $KEY=$TEXT user=bob attempt=3\n"),
	bedOf("yaml", "server:\n  port: 8080\n  $KEY: $TEXT\n  debug: false\n"),
	bedOf("yaml quoted", "server:\n  $KEY: '$TEXT'\n  debug: false\n"),
	bedOf("yaml pair", "env:\n- name: $KEY\n  value: $TEXT\n- name: PORT\n  value: \"80\"\n"),
	bedOf("properties", "[section]\nuser = bob\n$KEY = $TEXT\n"),
	bedOf("code", "func init() {\n\tcfg[\"$KEY\"] = \"$TEXT\"\n}\n"),
	bedOf("python", "client = Client($KEY='$TEXT', timeout=3)\n"),
	bedOf("describe", "    Environment:\n      PORT:  80\n      $KEY:  $TEXT\n    Mounts:\n"),
	plainBed("log line", "ERROR request failed: $TEXT (attempt 3)\n"),
	plainBed("its own line", "# config\n$TEXT\n# end\n"),
	plainBed("end", "the value is $TEXT"),
	plainBed("start", "$TEXT\nwas printed"),
	{name: "json", put: func(_ *rand.Rand, key, text string) string {
		return quoted(map[string]any{"a": 1, "zone": "eu", key: text})
	}},
	{name: "json pretty", put: func(_ *rand.Rand, key, text string) string {
		b, _ := json.MarshalIndent(map[string]any{"resources": []any{map[string]any{"type": "db", "attributes": map[string]any{key: text, "id": "x"}}}}, "", "  ")
		return string(b)
	}},
	{name: "json pair", put: func(_ *rand.Rand, key, text string) string {
		return quoted(map[string]any{"env": []any{map[string]string{"name": key, "value": text}}})
	}},
	{name: "terraform output", put: func(_ *rand.Rand, key, text string) string {
		return quoted(map[string]any{"outputs": map[string]any{key: map[string]any{"sensitive": true, "type": "string", "value": text}}})
	}},
	{name: "json in json", put: func(_ *rand.Rand, key, text string) string {
		return quoted(map[string]any{"body": quoted(map[string]any{key: text})})
	}},
	{name: "json in json in json", plain: true, put: func(_ *rand.Rand, _, text string) string {
		return quoted(map[string]any{"body": quoted(map[string]any{"inner": quoted([]string{"x", text})})})
	}},
	{name: "json string", plain: true, put: func(_ *rand.Rand, _, text string) string {
		return quoted(map[string]any{"message": "got " + text, "n": 1})
	}},
	{name: "json list", plain: true, put: func(_ *rand.Rand, _, text string) string { return quoted([]string{"--x", text, "y"}) }},
	{name: "json key", plain: true, put: func(_ *rand.Rand, _, text string) string { return quoted(map[string]any{text: true}) }},
	{name: "Secret in YAML", plain: true, put: func(_ *rand.Rand, _, text string) string {
		return "apiVersion: v1\ndata:\n  a: " + b64(text) + "\nkind: Secret\nmetadata:\n  name: db\n"
	}},
	{name: "Secret in JSON", plain: true, put: func(_ *rand.Rand, _, text string) string {
		item := map[string]any{"kind": "Secret", "data": map[string]string{"a": b64(text)}, "stringData": map[string]string{"b": text}}
		return quoted(map[string]any{"kind": "List", "items": []any{map[string]any{"kind": "ConfigMap"}, item}})
	}},
	{name: "headers", put: func(_ *rand.Rand, key, text string) string {
		return quoted(map[string]any{"headers": map[string]any{"Host": []string{"x"}, key: []string{text}}})
	}},
	{name: "query", put: func(_ *rand.Rand, key, text string) string {
		return "GET /v1/x?a=1&" + url.QueryEscape(key) + "=" + url.QueryEscape(text) + "&b=2 HTTP/1.1\r\nHost: example.com\r\n"
	}},
	{name: "escaped slashes", plain: true, put: func(_ *rand.Rand, _, text string) string {
		return strings.ReplaceAll(quoted(map[string]any{"m": text}), "/", `\/`)
	}},
	{name: "escaped letters", plain: true, put: func(r *rand.Rand, _, text string) string {
		var b strings.Builder
		for _, c := range []byte(text) {
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		return `{"m":"` + b.String() + `"}`
	}},
}

// left tells how a core can still be read.
func left(out []byte, core string) string {
	for i, text := 0, out; i < 4; i++ {
		for name, form := range map[string]string{"as it is": core, "in base64": b64(core)[:len(b64(core))/4*4-4], "in URL form": url.QueryEscape(core)} {
			if bytes.Contains(text, []byte(form)) {
				return name
			}
		}
		var buf bytes.Buffer
		decoder := strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\/`, `/`, `\n`, "\n")
		decoder.WriteString(&buf, string(text)) //nolint:errcheck // never fails
		text = buf.Bytes()
	}
	if len(core) > 12 {
		if half := core[:len(core)*3/4]; bytes.Contains(out, []byte(half)) {
			return "in part"
		}
	}
	return ""
}

func TestTenThousandSecretsAreGone(t *testing.T) {
	m := full(t)
	r := rand.New(rand.NewPCG(2026, 5))
	kinds, failed := map[string]bool{}, map[string]int{}
	n := 0
	for n < 10000 {
		p := plants[n%len(plants)]
		b := beds[r.IntN(len(beds))]
		if (p.key == "") != b.plain {
			continue
		}
		n++
		kinds[p.kind] = true
		text, core := p.make(r)
		what := b.put(r, p.key, text)
		noise := string(cleanLog(300 + r.IntN(700)))
		if r.IntN(2) == 0 {
			what = noise[:strings.LastIndexByte(noise, '\n')+1] + what
		}
		if r.IntN(2) == 0 && b.name != "end" {
			what += "\n" + noise
		}
		for in, out := range masked(t, m, what) {
			if how := left(out, core); how != "" {
				if failed[p.kind+" "+b.name]++; len(failed) < 25 && failed[p.kind+" "+b.name] == 1 {
					t.Errorf("%s (%s) in %s, %s: %s is left in\n%.600s", p.kind, p.key, b.name, in, how, out)
				}
			}
		}
	}
	if len(kinds) < 25 || len(failed) > 0 {
		t.Errorf("%d kinds; failed: %v", len(kinds), failed)
	}
}

// masked masks a text by itself, as the text of a result, and as its structured
// content if it is JSON, and checks what must hold of any output.
func masked(t testing.TB, m *mask.Masker, what string) map[string][]byte {
	t.Helper()
	outs := map[string][]byte{"text": m.Text([]byte(what), nil)}
	if again := m.Text(outs["text"], nil); !bytes.Equal(again, outs["text"]) {
		t.Errorf("masking twice: %s\nnot once: %s", again, outs["text"])
	}
	raws := map[string][]byte{"result": []byte(quoted(map[string]any{"content": []any{map[string]any{"type": "text", "text": what}}}))}
	if wire.Valid([]byte(what)) == nil {
		raws["structured"] = []byte(`{"structuredContent":` + what + `}`)
	}
	for name, raw := range raws {
		out := edited(m, raw)
		if err := wire.Valid(out); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		if again := edited(m, out); !bytes.Equal(again, out) {
			t.Errorf("%s: masking twice: %s\nnot once: %s", name, again, out)
		}
		outs[name] = out
	}
	return outs
}
