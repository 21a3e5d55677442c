package downstream_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcp-aggregator/internal/downstream"
	"mcp-aggregator/internal/wire"
)

func TestNumbersAreComparedAsNumbers(t *testing.T) {
	for _, c := range []struct {
		header, body string
		same         bool
	}{
		{"42", "42", true}, {"42.0", "42", true}, {"42", "42.0", true}, {"4.2e1", "42", true}, {"-7", "-7", true},
		{"9007199254740993", "9007199254740992", false}, {"9007199254740993", "9007199254740993", true},
		{"", "0", false}, {"0x2A", "42", false}, {"4_2", "42", false}, {"Inf", "1e999", false}, {" 42", "42", false},
		{"true", "true", true}, {"True", "true", false}, {"1", "true", false}, {"null", "null", false},
	} {
		if got := downstream.CompareParam(c.header, true, []byte(c.body)) == ""; got != c.same {
			t.Errorf("header %q against %s: %v", c.header, c.body, got)
		}
	}
}

// Whatever a client that follows the rules encodes is accepted, and nothing else
// stands for the same argument.
func FuzzHeaderAgainstBody(f *testing.F) {
	for _, s := range []string{"", "us-west1", " padded ", "line1\nline2", "Hello, 世界", "=?base64?SGVsbG8=?=", "=?base64?", "42"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, header, text string) {
		body, err := json.Marshal(text)
		if err != nil || wire.Valid(body) != nil {
			return
		}
		if json.Unmarshal(body, &text) != nil {
			return
		}
		if reason := downstream.CompareParam(wire.EncodeHeader(text), true, body); reason != "" {
			t.Errorf("%q encoded as %q %s", text, wire.EncodeHeader(text), reason)
		}
		if downstream.CompareParam(header, true, body) != "" {
			return
		}
		meant := header
		if strings.HasPrefix(header, "=?base64?") && strings.HasSuffix(header, "?=") && len(header) >= 11 {
			b, err := base64.StdEncoding.DecodeString(header[9 : len(header)-2])
			if err != nil {
				t.Errorf("%q was accepted", header)
			}
			meant = string(b)
		}
		if meant != text {
			t.Errorf("%q was accepted for %q", header, text)
		}
	})
}

func FuzzEraChoice(f *testing.F) {
	f.Add("2026-07-28", "2026-07-28")
	f.Add("", "2026-07-28")
	f.Add("2025-11-25", "")
	f.Fuzz(func(t *testing.T, header, meta string) {
		era, rpc := downstream.ChooseEra(header, meta)
		if rpc == nil && era == wire.Modern && (header != wire.V20260728 || meta != "" && meta != header) {
			t.Errorf("header %q, _meta %q: modern", header, meta)
		}
		if rpc == nil && era == wire.Legacy && meta != "" && meta != header {
			t.Errorf("header %q, _meta %q: legacy", header, meta)
		}
	})
}

func TestStamp(t *testing.T) {
	for _, c := range []struct{ params, id, want string }{
		{``, `1`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`},
		{`{}`, `"a"`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":"a"}}`},
		{`{"uri":"x"}`, `1`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"uri":"x"}`},
		{`{"uri":"x","_meta":{}}`, `1`, `{"uri":"x","_meta":{"io.modelcontextprotocol/subscriptionId":1}}`},
		{`{"_meta":{"k":[1]},"uri":"x"}`, `1`, `{"_meta":{"io.modelcontextprotocol/subscriptionId":1,"k":[1]},"uri":"x"}`},
		{`{"_meta":{"k":1,"io.modelcontextprotocol/subscriptionId":"theirs"}}`, `1`, `{"_meta":{"k":1,"io.modelcontextprotocol/subscriptionId":1}}`},
		{`{"_meta":{"k":1,"io.modelcontextprotocol/subscriptionId":"theirs"}}`, ``, `{"_meta":{"k":1}}`},
		{`{"_meta":{"io.modelcontextprotocol/subscriptionId":"theirs"},"uri":"x"}`, ``, `{"_meta":{},"uri":"x"}`},
		{`{"uri":"x"}`, ``, `{"uri":"x"}`},
	} {
		var id []byte
		if c.id != "" {
			id = []byte(c.id)
		}
		if got := string(downstream.Stamp([]byte(c.params), id).Bytes()); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.params, c.id, got, c.want)
		}
	}
}

func TestASessionAnswersOnlyToItsOwner(t *testing.T) {
	b := newBare(t, tools("a"))
	defer b.shut(t)
	as := func(who, session, body string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		rec := httptest.NewRecorder()
		b.Handler().ServeHTTP(rec, req.WithContext(downstream.WithPrincipal(req.Context(), who)))
		return rec
	}
	session := as("anna", "", initialize).Header().Get("Mcp-Session-Id")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for who, status := range map[string]int{"anna": 200, "bob": 403, "": 403} {
		if rec := as(who, session, ping); rec.Code != status {
			t.Errorf("%q: %d %s", who, rec.Code, rec.Body)
		}
	}
}
