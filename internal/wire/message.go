package wire

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Kind tells what a message is.
type Kind uint8

// The kinds of JSON-RPC messages.
const (
	Request Kind = iota + 1
	Notification
	Response
)

// A Message is one JSON-RPC message and where the members of its envelope lie.
type Message struct {
	Raw    []byte
	Kind   Kind
	Method string // decoded; empty for a Response

	// Spans in Raw. ID is the raw JSON: a string with its quotes, or a number; it
	// can be null only in a Response.
	ID, Params, Result, Error Span

	// Body is the params of a request or notification, or the result of a response.
	Body Object

	// Multiline: Raw has line breaks between tokens and must go through [Compact]
	// before it is written to a line-framed transport.
	Multiline bool
}

// A ScanError says why bytes are not an acceptable message.
type ScanError struct {
	Code   int    // CodeParse, CodeInvalidRequest or CodeInvalidParams
	ID     []byte // the raw id when it could be read, to answer with
	Offset int    // byte offset of the problem
	Reason string // fixed text: it never repeats what the peer sent
}

func (e *ScanError) Error() string {
	return fmt.Sprintf("%s (at byte %d)", e.Reason, e.Offset)
}

// envelope bits for duplicate detection.
const (
	seenVersion = 1 << iota
	seenID
	seenMethod
	seenParams
	seenResult
	seenError
)

// Scan reads one message. It validates all of raw as JSON and the envelope by the
// rules of JSON-RPC 2.0 and MCP (specification, basic: Messages): jsonrpc is "2.0",
// ids are strings or numbers, params and error are objects, no envelope key comes
// twice, in another case or spelled with escapes, since two readers could then
// disagree about what the message says. Unknown members are allowed and not carried
// on. A null params counts as absent. Batches are refused here; see [IsBatch].
//
// The error is a *ScanError. The message refers to raw and stays valid as long as
// raw does.
func Scan(raw []byte) (Message, error) {
	m := Message{Raw: raw}
	s := scanner{b: raw}
	return m, m.scan(&s)
}

// Read fills buf from r and scans it while it comes in: most of a large message is
// scanned by the time its last bytes arrive, and while it is still in the processor's
// cache. The result is that of Scan; an error that is not a *ScanError is one of
// reading, io.ErrUnexpectedEOF if r ended early. After a *ScanError buf is full.
func Read(r io.Reader, buf []byte) (Message, error) {
	m := Message{Raw: buf}
	s := scanner{b: buf[:0], whole: buf, src: r}
	if len(buf) == 0 {
		s.src = nil
	}
	err := m.scan(&s)
	if s.src != nil { // the rest of buf, which no scan has asked for
		_, s.readErr = io.ReadFull(r, buf[len(s.b):])
	}
	if s.readErr != nil {
		return m, s.readErr
	}
	return m, err
}

// scan reads the message that s holds or brings.
func (m *Message) scan(s *scanner) error {
	i := s.space(0)
	if s.need(i) && s.b[i] == '[' {
		return &ScanError{Code: CodeInvalidRequest, Offset: i, Reason: "batches are not supported here"}
	}
	if !s.need(i) || s.b[i] != '{' {
		if i = s.value(i, 0); i >= 0 && !s.need(s.space(i)) {
			return &ScanError{Code: CodeInvalidRequest, Reason: "a message must be a JSON object"}
		}
		s.fail(max(i, 0), "text after the value")
		return s.err
	}
	seen, wrong := 0, (*ScanError)(nil)
	end := m.envelope(s, i, &seen, &wrong)
	if end >= 0 {
		if end = s.space(end); s.need(end) {
			s.fail(end, "text after the message")
		}
	}
	m.Multiline = s.multiline
	if s.err != nil {
		return s.err
	}
	if wrong == nil {
		wrong = m.classify(seen)
	}
	if wrong == nil {
		return nil
	}
	if m.ID.OK() && string(m.ID.Of(m.Raw)) != "null" {
		wrong.ID = m.ID.Of(m.Raw)
	}
	return wrong
}

// envelope walks the members of the message. A member that breaks the envelope's
// rules is remembered in wrong and the walk goes on, so that bytes which are not
// JSON at all are still reported as such.
func (m *Message) envelope(s *scanner, i int, seen *int, wrong **ScanError) int {
	i = s.space(i + 1)
	if s.need(i) && s.b[i] == '}' {
		return i + 1
	}
	for {
		at, key := s.key(i)
		if at < 0 {
			return -1
		}
		bit, bad := envelopeKey(key.Of(s.b))
		var end int
		if (bit == seenParams || bit == seenResult) && s.need(at) && s.b[at] == '{' {
			end = m.Body.scan(s, at)
		} else {
			end = s.value(at, 1)
		}
		if end < 0 {
			return -1
		}
		switch {
		case bad != "":
		case *seen&bit != 0:
			bad = "an envelope member comes twice"
		case bit != 0:
			*seen |= bit
			bad = m.member(s.b, bit, Span{at, end})
		}
		if bad != "" && *wrong == nil {
			*wrong = &ScanError{Code: CodeInvalidRequest, Offset: key.Lo, Reason: bad}
		}
		if i = s.space(end); !s.need(i) {
			return s.fail(i, "unexpected end")
		}
		switch s.b[i] {
		case '}':
			return i + 1
		case ',':
			i = s.space(i + 1)
		default:
			return s.fail(i, "comma or end of object expected")
		}
	}
}

var envelopeKeys = map[string]int{"jsonrpc": seenVersion, "id": seenID, "method": seenMethod,
	"params": seenParams, "result": seenResult, "error": seenError}

// envelopeKey classifies a raw key: its bit, 0 for unknown ones, or why it is refused.
func envelopeKey(raw []byte) (bit int, bad string) {
	switch string(raw) {
	case `"jsonrpc"`:
		return seenVersion, ""
	case `"id"`:
		return seenID, ""
	case `"method"`:
		return seenMethod, ""
	case `"params"`:
		return seenParams, ""
	case `"result"`:
		return seenResult, ""
	case `"error"`:
		return seenError, ""
	}
	name, _ := Unquote(raw)
	if envelopeKeys[strings.ToLower(name)] != 0 {
		return 0, "an envelope member is spelled in another case or with escapes"
	}
	return 0, ""
}

// member notes one envelope member, or says why its value is refused.
func (m *Message) member(b []byte, bit int, v Span) (bad string) {
	first := b[v.Lo]
	switch bit {
	case seenVersion:
		if string(v.Of(b)) != `"2.0"` {
			return `jsonrpc must be "2.0"`
		}
	case seenID:
		if m.ID = v; first != '"' && first != 'n' && (first > '9' || first < '-') {
			m.ID = Span{}
			return "id must be a string or a number"
		}
	case seenMethod:
		if first != '"' {
			return "method must be a string"
		}
		m.Method = method(v.Of(b))
	case seenParams:
		if first == 'n' {
			return ""
		}
		if m.Params = v; first != '{' {
			return "params must be an object"
		}
		m.Body.Raw = v.Of(b)
	case seenResult:
		m.Result = v
		m.Body.Raw = v.Of(b)
	case seenError:
		if m.Error = v; first != '{' {
			return "error must be an object"
		}
	}
	return ""
}

// classify decides the kind from the members seen.
func (m *Message) classify(seen int) *ScanError {
	bad := ""
	switch {
	case seen&seenVersion == 0:
		bad = `jsonrpc "2.0" is missing`
	case seen&seenMethod != 0 && seen&(seenResult|seenError) != 0:
		bad = "a message cannot be both a request and a response"
	case seen&seenResult != 0 && seen&seenError != 0:
		bad = "a response cannot have both result and error"
	case seen&seenMethod != 0:
		if m.Kind = Notification; seen&seenID != 0 {
			m.Kind = Request
			if m.Raw[m.ID.Lo] == 'n' {
				bad = "the id of a request must not be null"
			}
		}
		if m.Method == "" {
			bad = "method must not be empty"
		}
	case seen&(seenResult|seenError) != 0 && seen&seenParams != 0:
		bad = "a response has no params"
	case seen&(seenResult|seenError) != 0:
		m.Kind = Response
		if seen&seenID == 0 && seen&seenError == 0 {
			bad = "a result needs an id"
		}
	default:
		bad = "method, result or error is missing"
	}
	if bad == "" {
		return nil
	}
	return &ScanError{Code: CodeInvalidRequest, Reason: bad}
}

// method decodes a method name; the names of the protocol are constants, so that
// reading a message allocates nothing.
func method(raw []byte) string {
	switch string(raw[1 : len(raw)-1]) {
	case "tools/call":
		return "tools/call"
	case "tools/list":
		return "tools/list"
	case "resources/read":
		return "resources/read"
	case "prompts/get":
		return "prompts/get"
	case "ping":
		return "ping"
	case "notifications/progress":
		return "notifications/progress"
	case "notifications/message":
		return "notifications/message"
	case "notifications/cancelled":
		return "notifications/cancelled"
	}
	name, _ := Unquote(raw)
	return name
}

// IsBatch reports whether raw is a JSON array: a JSON-RPC batch, which only
// revision 2025-03-26 allows.
func IsBatch(raw []byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '['
}

// Compact appends raw to dst with its line breaks replaced by spaces. Raw must be
// valid JSON, where line breaks can only stand between tokens.
func Compact(dst, raw []byte) []byte {
	at := len(dst)
	dst = append(dst, raw...)
	for i, c := range dst[at:] {
		if c == '\n' || c == '\r' {
			dst[at+i] = ' '
		}
	}
	return dst
}
