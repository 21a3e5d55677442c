package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mcp-aggregator/internal/wire"
)

func TestScanReadsEnvelopes(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		kind      wire.Kind
		id        string
		method    string
		body      string
	}{
		{"a request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, wire.Request, `1`, "tools/call", `{"name":"x"}`},
		{"a string id with escapes stays raw", `{"id":"\u0061\"","jsonrpc":"2.0","method":"ping"}`, wire.Request, `"\u0061\""`, "ping", ``},
		{"a fractional id stays raw", `{"id":-1.50e3,"jsonrpc":"2.0","method":"ping"}`, wire.Request, `-1.50e3`, "ping", ``},
		{"a notification", "{\"jsonrpc\":\"2.0\",\n\"method\":\"n\\u002fx\"}", wire.Notification, ``, "n/x", ``},
		{"null params are absent", `{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`, wire.Request, `1`, "ping", ``},
		{"a result", ` {"jsonrpc":"2.0","result":{"a":[1,{"b":null}]},"id":7} `, wire.Response, `7`, "", `{"a":[1,{"b":null}]}`},
		{"a result that is no object", `{"jsonrpc":"2.0","result":true,"id":7}`, wire.Response, `7`, "", `true`},
		{"an error without an id", `{"jsonrpc":"2.0","error":{"code":1,"message":""}}`, wire.Response, ``, "", ``},
		{"an error with a null id", `{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}`, wire.Response, `null`, "", ``},
		{"unknown members", `{"jsonrpc":"2.0","id":1,"method":"m","x":{"id":2},"x":1}`, wire.Request, `1`, "m", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := wire.Scan([]byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			if m.Kind != c.kind || string(m.ID.Of(m.Raw)) != c.id || m.Method != c.method || string(m.Body.Raw) != c.body {
				t.Errorf("got kind %d id %s method %q body %s", m.Kind, m.ID.Of(m.Raw), m.Method, m.Body.Raw)
			}
			if m.Multiline != strings.Contains(c.raw, "\n") {
				t.Errorf("multiline = %v", m.Multiline)
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	deep := strings.Repeat("[", wire.MaxDepth)
	for _, c := range []struct {
		name, raw string
		code      int
		id        string
	}{
		{"nothing", ``, wire.CodeParse, ""},
		{"text", `hello`, wire.CodeParse, ""},
		{"a cut message", `{"jsonrpc":"2.0","id":1,"method":"x"`, wire.CodeParse, ""},
		{"text behind the message", `{"jsonrpc":"2.0","id":1,"method":"x"} {}`, wire.CodeParse, ""},
		{"a raw line break in a string", "{\"jsonrpc\":\"2.0\",\"method\":\"a\nb\"}", wire.CodeParse, ""},
		{"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", wire.CodeParse, ""},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":` + deep + strings.ReplaceAll(deep, "[", "]") + `}}`, wire.CodeParse, ""},
		{"a number", `12`, wire.CodeInvalidRequest, ""},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"x"}]`, wire.CodeInvalidRequest, ""},
		{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`, wire.CodeInvalidRequest, "1"},
		{"two methods", `{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}`, wire.CodeInvalidRequest, "1"},
		{"an escaped key", `{"jsonrpc":"2.0","id":1,"\u006dethod":"x"}`, wire.CodeInvalidRequest, "1"},
		{"a key in another case", `{"jsonrpc":"2.0","ID":1,"id":3,"method":"x"}`, wire.CodeInvalidRequest, "3"},
		{"no version", `{"id":1,"method":"x"}`, wire.CodeInvalidRequest, "1"},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"x"}`, wire.CodeInvalidRequest, "1"},
		{"a null id", `{"jsonrpc":"2.0","id":null,"method":"x"}`, wire.CodeInvalidRequest, ""},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"x"}`, wire.CodeInvalidRequest, ""},
		{"a boolean id", `{"jsonrpc":"2.0","id":true,"method":"x"}`, wire.CodeInvalidRequest, ""},
		{"params as array", `{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}`, wire.CodeInvalidRequest, "1"},
		{"a method that is no string", `{"jsonrpc":"2.0","id":1,"method":5}`, wire.CodeInvalidRequest, "1"},
		{"an empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, wire.CodeInvalidRequest, "1"},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"x","result":{}}`, wire.CodeInvalidRequest, "1"},
		{"result and error", `{"jsonrpc":"2.0","id":1,"error":{},"result":{}}`, wire.CodeInvalidRequest, "1"},
		{"neither", `{"jsonrpc":"2.0","id":1}`, wire.CodeInvalidRequest, "1"},
		{"an error that is no object", `{"jsonrpc":"2.0","id":1,"error":"x"}`, wire.CodeInvalidRequest, "1"},
		{"a result without id", `{"jsonrpc":"2.0","result":{}}`, wire.CodeInvalidRequest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := wire.Scan([]byte(c.raw))
			var e *wire.ScanError
			if !errors.As(err, &e) {
				t.Fatalf("accepted: %v", err)
			}
			if e.Code != c.code || string(e.ID) != c.id {
				t.Errorf("code %d id %q (%v), want %d %q", e.Code, e.ID, e, c.code, c.id)
			}
		})
	}
}

func TestBodyFieldsRefuseAmbiguity(t *testing.T) {
	many := `"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,`
	for _, c := range []struct{ name, params, want, err string }{
		{"plain", `{"name":"x","arguments":{"name":"y"}}`, `"x"`, ""},
		{"beyond the noted members", `{` + many + `"name" : "x" }`, `"x"`, ""},
		{"escaped key", `{"\u006eame":"x"}`, `"x"`, ""},
		{"missing", `{}`, ``, ""},
		{"twice", `{"name":"x","name":"y"}`, ``, `member "name" comes twice`},
		{"twice, once escaped", `{"name":"x","n\u0061me":"y"}`, ``, `member "name" comes twice`},
		{"twice beyond the noted members", `{"name":"x",` + many + `"name":"y"}`, ``, `member "name" comes twice`},
		{"another case", `{"Name":"x"}`, ``, `member "name" is spelled in another case`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + c.params + `}`))
			if err != nil {
				t.Fatal(err)
			}
			f, err := m.Body.Fields("name")
			if err != nil {
				if err.Error() != c.err {
					t.Errorf("error %q, want %q", err, c.err)
				}
				return
			}
			if got := string(f[0].Of(m.Body.Raw)); got != c.want || c.err != "" {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Every subset of the members of an object can be taken out.
func TestWithoutLeavesValidObjects(t *testing.T) {
	for _, raw := range []string{`{"a":1}`, `{ "a" : 1 , "b":{}}`, `{"b":"}","a":[1]}`, "{\"b\":1, \"a\":2 ,\"c\":3\n,\"d\":{} }"} {
		var before map[string]any
		if err := json.Unmarshal([]byte(raw), &before); err != nil {
			t.Fatal(err)
		}
		for subset := range 1 << len(before) {
			members := wire.Members([]byte(raw), wire.Span{Lo: 0, Hi: len(raw)})
			i, dropped := 0, 0
			v := wire.Value{Raw: []byte(raw), Edits: wire.Without(members, func(m wire.Member) bool {
				drop := subset>>i&1 == 1
				if i++; drop {
					dropped++
				}
				return drop
			})}
			var after map[string]any
			if err := json.Unmarshal(v.Bytes(), &after); err != nil || len(after) != len(before)-dropped {
				t.Errorf("subset %b of %s leaves %s", subset, raw, v.Bytes())
			}
		}
	}
}

func TestValueAppliesEdits(t *testing.T) {
	v := wire.Value{Raw: []byte(`{"name":"a","x":1}`)}
	w := v.With(wire.Edit{Span: wire.Span{Lo: 8, Hi: 11}, With: []byte(`"long name"`)}, wire.Edit{Span: wire.Span{Lo: 1, Hi: 1}, With: []byte(`"r":0,`)})
	if got, want := string(w.Bytes()), `{"r":0,"name":"long name","x":1}`; got != want || w.Len() != len(want) {
		t.Errorf("got %s (%d), want %s", got, w.Len(), want)
	}
	if string(v.Bytes()) != `{"name":"a","x":1}` {
		t.Errorf("the original changed: %s", v.Bytes())
	}
}

// payload is a tools/call answer of n bytes of log text, where every few bytes need
// an escape, as real tool output has.
func payload(n int, escapes bool) []byte {
	line := `{\"level\":\"info\",\"msg\":\"row fetched\",\"path\":\"/srv/data/file.txt\",\"n\":12345}\n`
	if !escapes {
		line = `2026-11-02T10:11:12Z info row fetched path=/srv/data/file.txt n=12345 and so on and on `
	}
	return []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"` + strings.Repeat(line, n/len(line)+1) + `"}]}}`)
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name string
		raw  []byte
	}{
		{"call", []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"up__small","arguments":{"q":"hello","n":1},"_meta":{"progressToken":3}}}`)},
		{"1MB plain", payload(1<<20, false)},
		{"1MB escapes", payload(1<<20, true)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.Scan(c.raw); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/jsontext", func(b *testing.B) {
			b.SetBytes(int64(len(c.raw)))
			b.ReportAllocs()
			d := jsontext.NewDecoder(bytes.NewReader(nil))
			for b.Loop() {
				d.Reset(bytes.NewBuffer(c.raw))
				if _, err := d.ReadValue(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/encoding-json", func(b *testing.B) {
			b.SetBytes(int64(len(c.raw)))
			for b.Loop() {
				if !json.Valid(c.raw) {
					b.Fatal("invalid")
				}
			}
		})
	}
}
