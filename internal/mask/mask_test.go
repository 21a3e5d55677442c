package mask_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/wire"
)

func masker(t testing.TB, o mask.Options) *mask.Masker {
	t.Helper()
	m, err := mask.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// full masks everything there is.
func full(t testing.TB) *mask.Masker {
	return masker(t, mask.Options{Sets: []string{"all"}, Code: []string{mask.KubernetesSecret}})
}

// edited applies what Edits returns.
func edited(m *mask.Masker, raw []byte) []byte {
	return wire.Value{Raw: raw, Edits: m.Edits(raw, wire.Span{Hi: len(raw)}, nil)}.Bytes()
}

const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx9vQJ2kq0nW0s1Zr7fTq3mYb8d0kLw6c2sXyVtQe\nq0nW0s1Zr7fTq3mYb8d0kLw6c2sXyVtQeMIIEowIBAAKCAQEAx9vQJ2k=\n-----END RSA PRIVATE KEY-----"

func TestText(t *testing.T) {
	m := full(t)
	for _, c := range []struct{ name, in, want string }{
		{"a key id", "id AKIAIOSFODNN7EXAMPLE.", "id [masked:aws_access_key_id]."},
		{"a table of credentials", "AKIAIOSFODNN7EXAMPLE,wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n", "[masked:aws_access_key_id],[masked:aws_secret_key]\n"},
		{"a secret key in the environment", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SECRET_ACCESS_KEY=[masked:aws_secret_key]"},
		{"neighbours", "ghp_" + strings.Repeat("a1", 18) + " glpat-" + strings.Repeat("b2", 10), "[masked:github_token] [masked:gitlab_token]"},
		{"a key in lines", "x\n" + pem + "\ny", "x\n[masked:private_key]\ny"},
		{"a key on one line", strings.ReplaceAll(pem, "\n", " ") + " and more", "[masked:private_key] and more"},
		{"a key in a JSON string", `{"key":"` + strings.ReplaceAll(pem, "\n", `\n`) + `","b":1}`, `{"key":"[masked:private_key]","b":1}`},
		{"a key cut off", "log: " + pem[:140], "log: [masked:private_key]"},
		{"talk about keys", "The file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.", ""},
		{"a password in a URL", "dial postgres://bob:s3cr3t@db:5432/x failed", "dial postgres://bob:[masked:url_password]@db:5432/x failed"},
		{"a password alone in a URL", "redis://:hunter2@cache:6379/0", "redis://:[masked:url_password]@cache:6379/0"},
		{"an escaped URL", `postgres:\/\/bob:s3cr3t@db\/x`, `postgres:\/\/bob:[masked:url_password]@db\/x`},
		{"a URL inside of a URL", "next=postgres%3A%2F%2Fbob%3As3cr3t%40db", "next=postgres%3A%2F%2Fbob%3A[masked:url_password]%40db"},
		{"a URL with a port", "see http://localhost:8080/a@b and https://example.com/@scope/pkg", ""},
		{"a header", "Authorization: Bearer abcDEF123456789.xyz\r\nHost: x", "Authorization: Bearer [masked:authorization]\r\nHost: x"},
		{"basic credentials", "authorization: Basic Ym9iOnNlY3JldA==\n", "authorization: Basic [masked:authorization]\n"},
		{"prose about headers", "Send an Authorization: Bearer token, basic authentication or a bearer token-based scheme.", ""},
		{"cookies", "Set-Cookie: sid=abcdef0123456789; Path=/; HttpOnly", "Set-Cookie: sid=[masked:cookie]; Path=/; HttpOnly"},
		{"an assignment", "DB_PASS=hunter2\nTZ=UTC", "DB_PASS=[masked:database_password]\nTZ=UTC"},
		{"a quoted one", `password: "correct horse 1"`, `password: "[masked:password]"`},
		{"JSON in a text", `{"user":"bob","password":"a\"b,c","x":1}`, `{"user":"bob","password":"[masked:password]","x":1}`},
		{"JSON in JSON in a text", `{"body":"{\"password\":\"a\\\"b,c\"}"}`, `{"body":"{\"password\":\"[masked:password]\"}"}`},
		{"hidden letters", `{"a":"\u0041KIAIOSFODNN7EXAMPLE"}`, `{"a":"[masked:aws_access_key_id]"}`},
		{"placeholders", "password=*** password=<password> password=${PW} password: null\npassword: true\npassword=\ntoken: {{ .Values.token }}\nsecret=$SECRET", ""},
		{"names of other things", "next_page_token=abcdef123456 secretName: db-credentials-1 tokenExpirationSeconds: 3607 max_tokens=4096 public_key: abcdef123456", ""},
		{"code", "password := os.Getenv(\"PW\")\ntoken = cfg.Token2\nfunc f(password string, token string) {}\nPassword: password,\n", ""},
		{"a pair in YAML", "- name: DB_PASSWORD\n  value: hunter2\n- name: X\n  value: y", "- name: DB_PASSWORD\n  value: [masked:database_password]\n- name: X\n  value: y"},
		{"a Terraform output", `{"db_password": {"sensitive": true, "value": "hunter22"}}`, `{"db_password": {"sensitive": true, "value": "[masked:database_password]"}}`},
		{"a registry login", `{"auths":{"https://index.docker.io/v1/":{"auth":"Ym9iOnNlY3JldA=="}}}`, `{"auths":{"https://index.docker.io/v1/":{"auth":"[masked:docker_auth]"}}}`},
		{"an npmrc", "//registry.npmjs.org/:_authToken=0f1e2d3c-1111-2222-3333-444455556666", "//registry.npmjs.org/:_authToken=[masked:npmrc_auth]"},
		{"a password file", "db.example.com:5432:app:bob:s3cr3t\n", "db.example.com:5432:app:bob:[masked:pgpass]\n"},
		{"a netrc", "machine x.example.com login bob password s3cr3t9", "machine x.example.com login bob password [masked:password]"},
		{"a flag", "run --password hunter2 --verbose", "run --password [masked:password] --verbose"},
		{"arguments", `args: ["--token", "8f3a9b2c1d4e5f60"]`, `args: ["--token", "[masked:token]"]`},
		{"a Dockerfile", "FROM x\nENV DB_PASSWORD hunter22\n", "FROM x\nENV DB_PASSWORD [masked:database_password]\n"},
		{"a data source name", `"dsn": "bob:s3cr3t@tcp(db:3306)/app"`, `"dsn": "bob:[masked:dsn_password]@tcp(db:3306)/app"`},
		{"an element", "<password>hunter2</password>", "<password>[masked:password]</password>"},
		{"a connection string", "Server=db;User Id=sa;Password=Pa55w0rd!;Encrypt=true", "Server=db;User Id=sa;Password=[masked:password];Encrypt=true"},
		{"a query", "GET /x?access_token=abc123def456&y=1", "GET /x?access_token=[masked:oauth_token]&y=1"},
		{"what was masked", "password=[masked:password] [masked:jwt]", ""},
		{"at the end", "token: ghp_" + strings.Repeat("a1", 18), "token: [masked:github_token]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.in
			}
			if got := string(m.Text([]byte(c.in), nil)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			raw, err := json.Marshal(map[string]any{"text": c.in, "n": 1})
			if err != nil {
				t.Fatal(err)
			}
			var got struct{ Text string }
			if out := edited(m, raw); wire.Valid(out) != nil || json.Unmarshal(out, &got) != nil {
				t.Errorf("not valid: %s", out)
			}
			if got.Text != c.want {
				t.Errorf("in JSON: got  %s\nwant %s", got.Text, c.want)
			}
		})
	}
}

func TestEdits(t *testing.T) {
	m := full(t)
	for _, c := range []struct{ name, in, want string }{
		{"a telling key", `{"password":"x y\u0021 z1", "n": 1.50}`, `{"password":"[masked:password]", "n": 1.50}`},
		{"a list below one", `{"Authorization":["Bearer abcdef123456"],"X-Api-Key":["abcdef123456"]}`, `{"Authorization":["Bearer [masked:authorization]"],"X-Api-Key":["[masked:auth_header]"]}`},
		{"a secret in a key", `{"ghp_a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1":true}`, `{"[masked:github_token]":true}`},
		{"an escaped key", `{"p\u0061ssword":"hunter2"}`, `{"p\u0061ssword":"[masked:password]"}`},
		{"a pair", `[{"name":"API_KEY","value":"abcdef123456"},{"name":"X","value":"abcdef123456"}]`, `[{"name":"API_KEY","value":"[masked:api_key]"},{"name":"X","value":"abcdef123456"}]`},
		{"a flag's value", `{"args":["--password","hunter22","-v"]}`, `{"args":["--password","[masked:password]","-v"]}`},
		{"numbers stay", `{"password":12345678,"token":null}`, ``},
		{"hidden letters", `{"a":"\u0041KIAIOSFODNN7EXAMPLE\n"}`, `{"a":"[masked:aws_access_key_id]\n"}`},
		{"an escaped slash", `{"a":"https:\/\/bob:hunter2@x\/y"}`, `{"a":"https:\/\/bob:[masked:url_password]@x\/y"}`},
		{"two levels", `{"a":"{\"b\":\"{\\\"password\\\":\\\"hunter2\\\"}\"}"}`, `{"a":"{\"b\":\"{\\\"password\\\":\\\"[masked:password]\\\"}\"}"}`},
		{"a Secret", `{"kind":"Secret","data":{"a":"aHVudGVyMg=="},"metadata":{"name":"x"}}`, `{"kind":"Secret","data":{"a":"[masked:kubernetes_secret]"},"metadata":{"name":"x"}}`},
		{"a Secret in a list", `{"kind":"List","items":[{"data":{"a":"aHVudGVyMg=="},"kind":"Secret"},{"data":{"a":"plain"},"kind":"ConfigMap"}]}`, `{"kind":"List","items":[{"data":{"a":"[masked:kubernetes_secret]"},"kind":"Secret"},{"data":{"a":"plain"},"kind":"ConfigMap"}]}`},
		{"a list of Secrets", `{"kind":"SecretList","items":[{"data":{"a":"aHVudGVyMg=="},"type":"x"}]}`, `{"kind":"SecretList","items":[{"data":{"a":"[masked:kubernetes_secret]"},"type":"x"}]}`},
		{"what kubectl remembers", `{"kind":"ConfigMap","metadata":{"annotations":{"last":"{\"kind\":\"Secret\",\"stringData\":{\"a\":\"b c\"}}\n"}}}`, `{"kind":"ConfigMap","metadata":{"annotations":{"last":"{\"kind\":\"Secret\",\"stringData\":{\"a\":\"[masked:kubernetes_secret]\"}}\n"}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.in
			}
			got := string(edited(m, []byte(c.in)))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if again := string(edited(m, []byte(got))); again != got {
				t.Errorf("twice: %s", again)
			}
		})
	}
}

func TestCountsByKind(t *testing.T) {
	got := map[string]int{}
	full(t).Text([]byte("AKIAIOSFODNN7EXAMPLE AKIAIOSFODNN7EXAMPLF\npassword=hunter2\n"), func(kind string, n int) { got[kind] += n })
	if want := "map[aws_access_key_id:2 password:1]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestNilMasksNothing(t *testing.T) {
	var m *mask.Masker
	if !m.IsZero() || string(m.Text([]byte("password=x"), nil)) != "password=x" || m.Edits([]byte(`"password=x"`), wire.Span{Hi: 12}, nil) != nil {
		t.Error("something was masked")
	}
	if !masker(t, mask.Options{}).IsZero() {
		t.Error("a masker without options is not zero")
	}
}

func span(raw []byte) wire.Span { return wire.Span{Hi: len(raw)} }
