package downstream

import (
	"net/http"

	"mcp-aggregator/internal/router"
	"mcp-aggregator/internal/wire"
)

// Header names in the form in which net/http keeps them.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
)

// post serves a POST to the MCP endpoint, in the era that its message is of.
func (s *Server) post(w http.ResponseWriter, r *http.Request) *refusal {
	if no := checkPost(r.Header); no != nil {
		return no
	}
	if no := checkAccept(r.Header); no != nil {
		return no
	}
	body, no := s.readBody(w, r)
	if no != nil {
		return no
	}
	defer body.free()
	x := s.newExchange(w, r)
	defer x.endEvents()
	if no := s.serveMessage(x, body.bytes); no != nil {
		refuse(w, no) // before the buffer is given back: the id lies in it
	}
	return nil
}

// serveMessage serves the message of a POST in its era.
func (s *Server) serveMessage(x *exchange, raw []byte) *refusal {
	var err error
	if x.msg, err = wire.Scan(raw); err != nil {
		if wire.IsBatch(raw) {
			return s.postBatch(x, raw)
		}
		id, rpc := scanError(err)
		return &refusal{status: http.StatusBadRequest, id: id, err: rpc}
	}
	meta, rpc := readMeta(&x.msg.Body)
	if rpc == nil {
		x.era, rpc = chooseEra(one(x.r.Header, headerVersion), meta.version)
	}
	if rpc != nil {
		return &refusal{status: http.StatusBadRequest, id: messageID(&x.msg), err: rpc}
	}
	if x.era == wire.Modern {
		return s.postModern(x, meta)
	}
	return s.postLegacy(x)
}

// one returns the value of a header, "" if it is absent. Of several values, which
// two readers could understand differently, it returns what no check accepts.
func one(h http.Header, name string) string {
	switch v := h[name]; len(v) {
	case 0:
		return ""
	case 1:
		return v[0]
	}
	return "several values"
}

// messageID returns the raw id to answer with, nil if the message has none.
func messageID(m *wire.Message) []byte {
	if m.Kind == wire.Request {
		return m.ID.Of(m.Raw)
	}
	return nil
}

// chooseEra decides by which rules a POST is served, from the version in its header
// and the one in its _meta (specification 2026-07-28, versioning: Backward
// Compatibility). Neither means legacy: initialize, or a client of a revision
// without the header.
func chooseEra(header, meta string) (wire.Era, *wire.RPCError) {
	era, known := wire.EraOf(header)
	switch {
	case header == "" && meta == "":
		return wire.Legacy, nil
	case header == "":
		return 0, mismatch("the MCP-Protocol-Version header is missing")
	case meta != "" && meta != header:
		return 0, mismatch("the MCP-Protocol-Version header does not match the version in _meta")
	case !known:
		return 0, unsupportedVersion(header)
	}
	return era, nil
}

func mismatch(message string) *wire.RPCError {
	return &wire.RPCError{Code: wire.CodeHeaderMismatch, Message: "Header mismatch: " + message}
}

func unsupportedVersion(requested string) *wire.RPCError {
	data := append([]byte(`{"supported":`), supportedVersions...)
	data = wire.AppendQuote(append(data, `,"requested":`...), requested)
	return &wire.RPCError{Code: wire.CodeUnsupportedVersion, Message: "Unsupported protocol version", Data: append(data, '}')}
}

// statusOf is the HTTP status of a reply to a modern request (specification
// 2026-07-28, streamable-http).
func statusOf(reply *router.Reply) int {
	if reply.Err == nil {
		return http.StatusOK
	}
	switch reply.Err.Code {
	case wire.CodeMethodNotFound:
		return http.StatusNotFound
	case wire.CodeInvalidParams, wire.CodeHeaderMismatch, wire.CodeMissingCapability, wire.CodeUnsupportedVersion,
		wire.CodeInvalidRequest, wire.CodeParse:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
