// Package mcptest is the test kit: MCP peers that speak the protocol as bytes.
//
// [Raw] is an upstream server that answers with exactly the JSON it was given,
// over HTTP and over a pair of pipes, in both protocol eras, and that misbehaves
// on request. [Client] is the other end: a client that sees the bytes of every
// answer. [Children] turns a test binary into a stdio server. [ServeSDK] and
// [ConnectSDK] bring up peers of the official SDK, an implementation that shares
// no code with the product.
//
// [Chaos] is a server that works and misbehaves on request, as a child or on HTTP;
// what it executes stands in a [Ledger], which outlives it. A [Site] is an HTTP server
// that goes down and comes back, a [Cable] a way to a server that fails and heals.
//
// Nothing here imports the product, so any package may use it in its tests.
//
// # Concurrency
//
// Raw and Client are safe for concurrent use. Raw answers every request in its
// own goroutine, which ends with the request's connection; [Raw.Serve] waits for
// them. A Cable and a Site own goroutines that Close and Down end. A Client over pipes owns one reader goroutine, ended by Close.
package mcptest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// Era says which of the protocol's two ways of opening a peer speaks.
type Era uint8

// The eras. Both is only for servers.
const (
	Legacy Era = 1 << iota // 2025-11-25 and earlier: initialize, sessions
	Modern                 // 2026-07-28: server/discover, metadata in every request
	Both   = Legacy | Modern
)

// The newest revision of each era, and the metadata keys the modern one requires.
const (
	LegacyVersion = "2025-11-25"
	ModernVersion = "2026-07-28"

	reserved    = "io.modelcontextprotocol/"
	metaVersion = reserved + "protocolVersion"
	metaInfo    = reserved + "clientInfo"
	metaCaps    = reserved + "clientCapabilities"
	metaSubID   = reserved + "subscriptionId"
)

func (e Era) String() string {
	return map[Era]string{Legacy: "legacy", Modern: "modern", Both: "both"}[e]
}

// Request is one message as a server received it. Requests, notifications (no
// ID) and responses (no Method) all are.
type Request struct {
	Raw    json.RawMessage // the whole message, byte for byte
	Method string
	ID     json.RawMessage // nil if absent
	Params json.RawMessage // nil if absent
	Result json.RawMessage // of a response
	Error  json.RawMessage // of a response
	Name   string          // params.name, params.uri or params.taskId
	Cursor string          // params.cursor
	Token  json.RawMessage // params._meta.progressToken
	Era    Era             // Modern if the metadata names a protocol version
	Header http.Header     // over HTTP
}

// ParseRequest reads the envelope of a message and nothing else.
func ParseRequest(raw []byte) (*Request, error) {
	r := &Request{Raw: bytes.Clone(raw), Era: Legacy}
	envelope := struct {
		Method *string          `json:"method"`
		ID     *json.RawMessage `json:"id"`
		Params *json.RawMessage `json:"params"`
		Result *json.RawMessage `json:"result"`
		Error  *json.RawMessage `json:"error"`
	}{&r.Method, &r.ID, &r.Params, &r.Result, &r.Error}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		return nil, err
	}
	var params struct {
		Name, URI, Cursor string
		TaskID            string
		Meta              map[string]json.RawMessage `json:"_meta"`
	}
	// Parameters of the wrong shape are the business of whoever answers.
	if json.Unmarshal(r.Params, &params) == nil {
		r.Name, r.Cursor, r.Token = params.Name+params.URI+params.TaskID, params.Cursor, params.Meta["progressToken"]
		if params.Meta[metaVersion] != nil {
			r.Era = Modern
		}
	}
	return r, nil
}

// Quote renders s as a JSON string.
func Quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}

func resultMessage(id json.RawMessage, result string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func errorMessage(id json.RawMessage, err string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":` + err + `}`)
}

func errorObject(code int, message string) string {
	return `{"code":` + strconv.Itoa(code) + `,"message":` + Quote(message) + `}`
}
