package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// JSON-RPC and MCP error codes (specification 2026-07-28, basic: Error Codes).
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002 // legacy revisions only; modern uses CodeInvalidParams
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

// An RPCError is the error object of a response.
type RPCError struct {
	Code    int
	Message string
	Data    []byte // raw JSON, or nil
	Raw     []byte // the whole object as it was received; nil for an error of ours
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// ParseRPCError reads an error object. Peers send odd ones: what cannot be read
// becomes an internal error, and Raw keeps the bytes.
func ParseRPCError(raw []byte) *RPCError {
	var o struct {
		Code    json.Number     `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	e := &RPCError{Code: CodeInternal, Message: "unreadable error", Raw: raw}
	if json.Unmarshal(raw, &o) != nil {
		return e
	}
	if n, err := strconv.ParseFloat(o.Code.String(), 64); err == nil && n == float64(int(n)) {
		e.Code = int(n)
	}
	e.Message, e.Data = o.Message, o.Data
	return e
}

// appendObject appends the error as a JSON object.
func (e *RPCError) appendObject(dst []byte) []byte {
	if e.Raw != nil {
		return append(dst, e.Raw...)
	}
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendQuote(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// AppendRequest appends a request message. Zero params are left out.
func AppendRequest(dst []byte, id int64, method string, params Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = strconv.AppendInt(dst, id, 10)
	return appendCall(dst, method, params)
}

// AppendNotification appends a notification message. Zero params are left out.
func AppendNotification(dst []byte, method string, params Value) []byte {
	return appendCall(append(dst, `{"jsonrpc":"2.0"`...), method, params)
}

func appendCall(dst []byte, method string, params Value) []byte {
	dst = append(dst, `,"method":`...)
	dst = AppendQuote(dst, method)
	if !params.IsZero() {
		dst = append(dst, `,"params":`...)
		dst = params.Append(dst)
	}
	return append(dst, '}')
}

// AppendResultHead appends a result response up to its result: the text of the
// result and a closing brace complete it. It lets a large result be written
// without copying it.
func AppendResultHead(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

// AppendResult appends a result response; id is raw JSON.
func AppendResult(dst, id []byte, result Value) []byte {
	return append(result.Append(AppendResultHead(dst, id)), '}')
}

// AppendError appends an error response. A nil id is written as null, as JSON-RPC
// asks for messages whose id could not be read.
func AppendError(dst, id []byte, e *RPCError) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"error":`...)
	return append(e.appendObject(dst), '}')
}
