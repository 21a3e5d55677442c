package upstream

import "mcp-aggregator/internal/wire"

// answerRequest decides what a request of a server is answered with that no client is
// asked about, whatever the transport, and appends the response to dst.
//
// A ping is always answered. Servers ask for roots right after the handshake, when no
// client is involved: there are none. For everything else there must be a call that is
// the cause, see asks.
func answerRequest(dst, id []byte, method string) []byte {
	switch method {
	case "ping":
		return wire.AppendResult(dst, id, wire.Value{Raw: []byte("{}")})
	case "roots/list":
		return wire.AppendResult(dst, id, wire.Value{Raw: []byte(`{"roots":[]}`)})
	}
	return wire.AppendError(dst, id, refusal(method, noClient))
}
