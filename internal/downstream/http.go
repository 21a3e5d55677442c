package downstream

import (
	"fmt"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// Paths of the older HTTP+SSE transport.
const (
	pathSSE      = "/sse"
	pathMessages = "/messages"
)

// Handler serves the MCP endpoint and, if the configuration wants it, the older
// HTTP+SSE transport; it answers 404 to all other paths.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.busy.begin() {
		refuse(w, &refusal{status: http.StatusServiceUnavailable, err: rpcError(errStopping), close: true})
		return
	}
	defer s.busy.end()
	defer s.contain(w, r)
	no := s.guard.check(r)
	if no == nil {
		no = s.route(w, r)
	}
	if no != nil {
		// net/http reads what is left of the body before it goes on.
		patience := lastBody
		if no.status == http.StatusRequestTimeout {
			patience = 0
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience))
		refuse(w, no)
	}
}

// lastBody is the time a client has to send the rest of a request that was refused.
const lastBody = 5 * time.Second

// route finds what serves a request.
func (s *Server) route(w http.ResponseWriter, r *http.Request) *refusal {
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		return &refusal{status: http.StatusBadRequest, err: invalidRequest("only POST has a body"), close: true}
	}
	switch path := r.URL.Path; {
	case path == s.cfg.HTTP.Path:
		switch r.Method {
		case http.MethodPost:
			return s.post(w, r)
		case http.MethodGet:
			return s.openStream(w, r)
		case http.MethodDelete:
			return s.deleteSession(w, r)
		}
		return notAllowed("POST, GET, DELETE")
	case path == pathSSE && s.cfg.HTTP.SSE:
		if r.Method == http.MethodGet {
			return s.openSSE(w, r)
		}
		// Clients try the newer transport first: 405 tells them to use GET.
		return notAllowed("GET")
	case path == pathMessages && s.cfg.HTTP.SSE:
		if r.Method == http.MethodPost {
			return s.postSSE(w, r)
		}
		return notAllowed("POST")
	}
	return &refusal{status: http.StatusNotFound, err: invalidRequest("nothing is served at this path")}
}

// contain keeps a panic from costing more than the request. The answer has not
// begun, or the client sees it cut short.
func (s *Server) contain(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.log.Error("request panicked", "method", r.Method, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
	refuse(w, &refusal{status: http.StatusInternalServerError, err: rpcError(fault.Of(fault.Internal, "", "internal error")), close: true})
}

// refuse answers with a status and a JSON-RPC error.
func refuse(w http.ResponseWriter, no *refusal) {
	h := w.Header()
	if no.allow != "" {
		h.Set("Allow", no.allow)
	}
	if no.close {
		h.Set("Connection", "close")
	}
	h["Content-Type"] = contentJSON
	w.WriteHeader(no.status)
	b := getScratch()
	b.bytes = wire.AppendError(b.bytes, no.id, no.err)
	_, _ = w.Write(b.bytes)
	b.free()
}

func notAllowed(allow string) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, err: invalidRequest("method not allowed"), allow: allow}
}

// checkPost checks the headers that every POST must have.
func checkPost(h http.Header) *refusal {
	if !isJSON(h["Content-Type"]) {
		return &refusal{status: http.StatusUnsupportedMediaType, err: invalidRequest("Content-Type must be application/json")}
	}
	if e := h["Content-Encoding"]; len(e) > 0 && e[0] != "" && e[0] != "identity" {
		return &refusal{status: http.StatusUnsupportedMediaType, err: invalidRequest("Content-Encoding is not supported")}
	}
	return nil
}

// checkAccept checks that the client takes either form of an answer.
func checkAccept(h http.Header) *refusal {
	if json, events := accepted(h["Accept"]); !json || !events {
		return &refusal{status: http.StatusNotAcceptable, err: invalidRequest("Accept must allow both application/json and text/event-stream")}
	}
	return nil
}

// isJSON checks a Content-Type.
func isJSON(values []string) bool {
	if len(values) != 1 {
		return false
	}
	if values[0] == "application/json" {
		return true
	}
	t, _, err := mime.ParseMediaType(values[0])
	return err == nil && t == "application/json"
}

// accepted reads Accept. A client that sends none takes everything (RFC 9110,
// section 12.5.1).
func accepted(values []string) (json, events bool) {
	if len(values) == 0 {
		return true, true
	}
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			t, params, _ := strings.Cut(part, ";")
			if refused(params) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(t)) {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				events = true
			case "*/*":
				return true, true
			}
		}
	}
	return json, events
}

// refused reports whether the parameters of a media range say "not this one".
func refused(params string) bool {
	q := strings.ReplaceAll(strings.ToLower(params), " ", "")
	return q == "q=0" || q == "q=0.0" || q == "q=0.00" || q == "q=0.000"
}
