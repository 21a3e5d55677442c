package mask_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/mask"
)

func TestKubernetesSecretsInText(t *testing.T) {
	m := masker(t, mask.Options{Code: []string{mask.KubernetesSecret}})
	const x = "[masked:kubernetes_secret]"
	for _, c := range []struct{ name, in, want string }{
		{"YAML", "apiVersion: v1\ndata:\n  user: Ym9i\n  pass: \"aHVudGVyMg==\"\nkind: Secret\nmetadata:\n  name: db\ntype: Opaque\n",
			"apiVersion: v1\ndata:\n  user: " + x + "\n  pass: " + x + "\nkind: Secret\nmetadata:\n  name: db\ntype: Opaque\n"},
		{"the kind first", "kind: Secret\nstringData:\n  a: b c\n  empty: \"\"\n", "kind: Secret\nstringData:\n  a: " + x + "\n  empty: \"\"\n"},
		{"a block", "kind: Secret\nstringData:\n  cfg: |\n    user: bob\n    pass: x\n\n    more: y\n  b: c\nmetadata:\n  name: n\n",
			"kind: Secret\nstringData:\n  cfg: |\n    " + x + "\n  b: " + x + "\nmetadata:\n  name: n\n"},
		{"a value on its next lines", "kind: Secret\ndata:\n  a: aGVs\n    bG8=\n  b:\n    aGVsbG8=\n", "kind: Secret\ndata:\n  a: " + x + "\n  b:\n    " + x + "\n"},
		{"in braces", "kind: Secret\ndata: {a: b, c: d}\n", "kind: Secret\ndata: " + x + "\n"},
		{"a list", "kind: List\nitems:\n- apiVersion: v1\n  data:\n    a: Yg==\n  kind: Secret\n- apiVersion: v1\n  data:\n    a: stays\n  kind: ConfigMap\n",
			"kind: List\nitems:\n- apiVersion: v1\n  data:\n    a: " + x + "\n  kind: Secret\n- apiVersion: v1\n  data:\n    a: stays\n  kind: ConfigMap\n"},
		{"an item that begins with its kind", "items:\n  - kind: Secret\n    data:\n      a: Yg==\n  - kind: ConfigMap\n    data:\n      a: stays\n",
			"items:\n  - kind: Secret\n    data:\n      a: " + x + "\n  - kind: ConfigMap\n    data:\n      a: stays\n"},
		{"an item that begins with its data", "items:\n- data:\n    a: Yg==\n  kind: Secret\n- data:\n    a: stays\n  kind: ConfigMap\n",
			"items:\n- data:\n    a: " + x + "\n  kind: Secret\n- data:\n    a: stays\n  kind: ConfigMap\n"},
		{"a SecretList", "kind: SecretList\nitems:\n- data:\n    a: Yg==\n  metadata:\n    name: n\n", "kind: SecretList\nitems:\n- data:\n    a: " + x + "\n  metadata:\n    name: n\n"},
		{"documents", "kind: ConfigMap\ndata:\n  a: stays\n---\nkind: Secret\ndata:\n  a: Yg==\n---\nkind: ConfigMap\ndata:\n  a: stays\n",
			"kind: ConfigMap\ndata:\n  a: stays\n---\nkind: Secret\ndata:\n  a: " + x + "\n---\nkind: ConfigMap\ndata:\n  a: stays\n"},
		{"what kubectl remembers in YAML", "kind: Secret\nmetadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n      {\"data\":{\"a\":\"Yg==\"},\"kind\":\"Secret\"}\ndata:\n  a: Yg==\n",
			"kind: Secret\nmetadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n      {\"data\":{\"a\":\"" + x + "\"},\"kind\":\"Secret\"}\ndata:\n  a: " + x + "\n"},
		{"carriage returns", "kind: Secret\r\ndata:\r\n  a: Yg==\r\n  b: Yw==\r\n", "kind: Secret\r\ndata:\r\n  a: " + x + "\r\n  b: " + x + "\r\n"},
		{"a quoted kind", "\"kind\": 'Secret'\ndata:\n  \"a\": Yg==\n", "\"kind\": 'Secret'\ndata:\n  \"a\": " + x + "\n"},
		{"JSON", `{"apiVersion":"v1","data":{"a":"Yg==","b":""},"kind":"Secret"}`, `{"apiVersion":"v1","data":{"a":"` + x + `","b":""},"kind":"Secret"}`},
		{"JSON in a log", "10:00 [info] applied {\"kind\": \"Secret\", \"data\": {\"a\": \"Yg==\"}} ok\n", "10:00 [info] applied {\"kind\": \"Secret\", \"data\": {\"a\": \"" + x + "\"}} ok\n"},
		{"JSON without its end", `{"kind":"Secret","data":{"a":"Yg==","b":"c`, `{"kind":"Secret","data":{"a":"` + x + `","b":"` + x},
		{"lines of JSON", "{\"kind\":\"ConfigMap\",\"data\":{\"a\":\"stays\"}}\n{\"kind\":\"Secret\",\"data\":{\"a\":\"Yg==\"}}\n", "{\"kind\":\"ConfigMap\",\"data\":{\"a\":\"stays\"}}\n{\"kind\":\"Secret\",\"data\":{\"a\":\"" + x + "\"}}\n"},
		{"a quoted log", `level=info obj="{\"kind\":\"Secret\",\"data\":{\"a\":\"Yg==\"}}"`, `level=info obj="{\"kind\":\"Secret\",\"data\":{\"a\":\"` + x + `\"}}"`},
		{"an item without a kind", `{"metadata":{"name":"n"},"type":"Opaque","data":{"a":"Yg=="}}`, `{"metadata":{"name":"n"},"type":"Opaque","data":{"a":"` + x + `"}}`},
		{"another kind of that name", "kind: SecretStore\ndata:\n  a: stays\n", ""},
		{"a Secret below another kind", `{"kind":"Pod","data":{"x":"stays"},"spec":{"kind":"Secret","name":"db"}}`, ""},
		{"prose", "A Secret has data: the values are in base64. kind of Secret.", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.in
			}
			out := m.Text([]byte(c.in), nil)
			if string(out) != c.want {
				t.Errorf("got\n%s\nwant\n%s", out, c.want)
			}
			if again := m.Text(out, nil); !bytes.Equal(again, out) {
				t.Errorf("twice\n%s", again)
			}
			raw := quoted(map[string]any{"text": c.in, "n": []int{1}})
			if got, want := string(edited(m, []byte(raw))), quoted(map[string]any{"text": c.want, "n": []int{1}}); got != want {
				t.Errorf("in JSON: got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// A peer that nests on purpose must cost no more than its bytes.
func TestHostileTextTakesLinearTime(t *testing.T) {
	m := full(t)
	for name, piece := range map[string]string{
		"kinds": "kind: Secret\n", "kinds in items": "- kind: Secret\n", "braces": `{"kind":"Secret","data":`, "brackets": "[", "begins": "-----BEGIN PRIVATE KEY-----\n",
		"headers": "eyJhbGciOiJIUzI1NiJ9", "backslashes": `\`, "escaped quotes": `\"`, "nested": `\\\"password\\\":\\\"`, "schemes": "a://", "users": "a://b:c", "keys": "api_key=", "names": "password",
		"plus": "+ASta", "digits": "1234567890:AA", "markers": "[masked:", "cookies": "Cookie: a=b;", "blocks": "password: |\n", "sigs": "sig=a", "pairs": "token\nvalue", "percent": "%70%61",
	} {
		text := []byte(strings.Repeat(piece, mega/8/len(piece)))
		start := time.Now()
		m.Text(text, nil)
		took := time.Since(start)
		if took > 10*time.Second {
			t.Errorf("%s: %v for 128 KiB", name, took)
		}
		t.Logf("%s: %v", name, took)
	}
}
