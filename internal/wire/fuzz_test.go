package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"mcp-aggregator/internal/wire"
)

// FuzzScan compares with encoding/json: what Scan accepts must be valid JSON and
// mean the same to both; what only encoding/json accepts must be refused for a
// reason of the envelope, depth or encoding.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"p"}}}`,
		`{"jsonrpc":"2.0","id":"a\u00e9\ud83d\ude00","result":{"content":[{"type":"text","text":"é\n"}]}}`,
		`{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"},"id":null}`,
		`[1,-0.5e+7,true,false,null,"\/\b\f"]`, `{"a":{"b":[[],{}]}}`, "\xef\xbb\xbf{}", `{"jsonrpc":"2.0","method":"x","params":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, want := wire.Valid(raw) == nil, json.Valid(raw) && utf8.Valid(raw); got != want && !tooDeep(raw) {
			t.Fatalf("Valid = %v, encoding/json says %v", got, want)
		}
		m, err := wire.Scan(raw)
		checkRead(t, raw, m, err)
		if err != nil {
			return
		}
		var e struct {
			ID     json.RawMessage `json:"id"`
			Method *string         `json:"method"`
			Params json.RawMessage `json:"params"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		if e.Method != nil && *e.Method != m.Method {
			t.Errorf("method %q, want %q", m.Method, *e.Method)
		}
		for _, c := range []struct {
			name string
			got  wire.Span
			want json.RawMessage
		}{{"id", m.ID, e.ID}, {"params", m.Params, e.Params}, {"result", m.Result, e.Result}, {"error", m.Error, e.Error}} {
			if c.name == "params" && string(c.want) == "null" {
				continue
			}
			if got := c.got.Of(raw); !bytes.Equal(got, c.want) {
				t.Errorf("%s = %q, want %q", c.name, got, c.want)
			}
		}
		checkMembers(t, &m)
	})
}

// checkRead: however the bytes of a message come in, it is read as if they were there.
func checkRead(t *testing.T, raw []byte, want wire.Message, wantErr error) {
	got, err := wire.Read(iotest.OneByteReader(bytes.NewReader(raw)), make([]byte, len(raw)))
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && (got.ID != want.ID || got.Method != want.Method || got.Params != want.Params ||
		got.Result != want.Result || got.Error != want.Error || got.Kind != want.Kind || got.Multiline != want.Multiline || !bytes.Equal(got.Body.Raw, want.Body.Raw)) {
		t.Fatalf("read %+v (%v), want %+v (%v)", got, err, want, wantErr)
	}
	if len(raw) > 0 && wantErr == nil {
		if _, err := wire.Read(bytes.NewReader(raw[:len(raw)-1]), make([]byte, len(raw))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("a short message was accepted: %v", err)
		}
	}
}

// checkMembers compares the noted members with a walk and with encoding/json.
func checkMembers(t *testing.T, m *wire.Message) {
	var want map[string]json.RawMessage
	if json.Unmarshal(m.Body.Raw, &want) != nil {
		return
	}
	got := map[string]json.RawMessage{}
	for mem := range m.Body.Members() {
		key, ok := wire.Unquote(mem.Key.Of(m.Body.Raw))
		if !ok {
			t.Fatalf("key %q", mem.Key.Of(m.Body.Raw))
		}
		got[key] = mem.Val.Of(m.Body.Raw)
		cut := wire.Value{Raw: m.Body.Raw, Edits: wire.Without(m.Body.Members(), func(o wire.Member) bool { return o == mem })}
		if !json.Valid(cut.Bytes()) {
			t.Fatalf("cutting %s leaves %s", key, cut.Bytes())
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d members, want %d", len(got), len(want))
	}
	for k, v := range want {
		if !bytes.Equal(got[k], v) {
			t.Fatalf("member %q = %s, want %s", k, got[k], v)
		}
	}
}

func tooDeep(raw []byte) bool {
	return bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) > wire.MaxDepth
}

// FuzzEvents: however the bytes of a stream are cut, the same events come out, and
// events written by AppendEvent come back as they went in.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("data: {}\n\n"), "hello\nworld")
	f.Add([]byte("\xef\xbb\xbf: c\r\nid: 7\rretry: 10\r\ndata\ndata: x\r\n\r\n"), "")
	f.Fuzz(func(t *testing.T, stream []byte, data string) {
		whole := readEvents(bytes.NewReader(stream))
		if cut := readEvents(iotest.OneByteReader(bytes.NewReader(stream))); whole != cut {
			t.Fatalf("cut differently: %q, want %q", cut, whole)
		}
		if strings.ContainsRune(data, '\r') {
			return
		}
		ev, err := wire.NewEventReader(bytes.NewReader(wire.AppendEvent(nil, "9", []byte(data))), 1<<20).Next()
		if err != nil || string(ev.Data) != data || ev.ID != "9" {
			t.Fatalf("wrote %q, read %q (%v)", data, ev.Data, err)
		}
	})
}

func readEvents(r io.Reader) string {
	var out strings.Builder
	er := wire.NewEventReader(r, 1000)
	for {
		ev, err := er.Next()
		if err != nil {
			out.WriteString(err.Error())
			return out.String()
		}
		out.WriteString(ev.Name + "|" + ev.ID + "|" + string(ev.Data) + "|" + ev.Retry.String() + "\n")
	}
}

func FuzzQuote(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\x00\u2028é😀\xff")
	f.Fuzz(func(t *testing.T, s string) {
		q := wire.AppendQuote(nil, s)
		if err := wire.Valid(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if got, ok := wire.Unquote(q); !ok || got != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

// FuzzAppendText compares with encoding/json.
func FuzzAppendText(f *testing.F) {
	for _, s := range []string{`plain`, `\n\"\\\/\b\f\r\t`, `\u00e9\u4E2d é`, `\ud83d\ude00`, `\ud83d`, `\ude00\ud83d`, `\ud83d\ud83d\ude00`, `\ud83dx`, "\xff\\n", `\ud83d\n`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, inner string) {
		literal := []byte(`"` + inner + `"`)
		if wire.Valid(literal) != nil {
			return
		}
		want, ok := wire.Unquote(literal)
		if got := wire.AppendText([]byte("x"), literal); ok && string(got) != "x"+want {
			t.Errorf("%q, want %q", got[1:], want)
		}
	})
}
