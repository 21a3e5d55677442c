package upstream

import (
	"maps"
	"net/http"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// An httpHead is what requests carry besides the call. It is replaced whole and
// never modified, so a call sees one consistent state and takes no lock.
type httpHead struct {
	header  http.Header // of a POST; all a legacy call needs
	info    *Info
	session *httpSession
	renewal *httpRenewal // while a lost session is being replaced
}

func (h *httpHead) modern() bool { return h.info.Era == wire.Modern }

// resumes reports whether the server may offer to go on with a broken stream.
func (h *httpHead) resumes() bool { return !h.modern() }

// update replaces the head by a changed copy.
func (t *httpConn) update(change func(*httpHead)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.updateLocked(change)
}

func (t *httpConn) updateLocked(change func(*httpHead)) {
	h := *t.head.Load()
	change(&h)
	h.header = maps.Clone(t.fixed)
	if h.info.Version != "" {
		h.header["Mcp-Protocol-Version"] = []string{h.info.Version}
	}
	if h.session.id != "" && !h.modern() {
		h.header["Mcp-Session-Id"] = []string{h.session.id}
	}
	t.head.Store(&h)
}

// fixedHeader makes the headers that every request has.
func fixedHeader(s *config.Server, version string) http.Header {
	h := http.Header{"User-Agent": {"mcp-aggregator"}}
	if version != "" {
		h.Set("User-Agent", "mcp-aggregator/"+version)
	}
	for name, value := range s.Headers {
		h.Set(name, value)
	}
	if s.BearerToken != "" {
		h.Set("Authorization", "Bearer "+s.BearerToken)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	return h
}

// callHeader makes the headers of one call. Those without anything of their own
// share one map: net/http only reads it.
func (t *httpConn) callHeader(h *httpHead, r *Request) http.Header {
	shared := h.header
	if r.Method == "initialize" {
		shared = t.fixed // a new session: neither the old one's id nor a version (2025-11-25, transports: Session Management)
	}
	if !h.modern() && len(r.Header) == 0 {
		return shared
	}
	own := make(http.Header, len(shared)+len(r.Header)+2)
	for name, values := range r.Header {
		own[http.CanonicalHeaderKey(name)] = values
	}
	maps.Copy(own, shared)
	if h.modern() {
		own["Mcp-Method"] = []string{wire.EncodeHeader(r.Method)}
		if r.Name != "" {
			own["Mcp-Name"] = []string{wire.EncodeHeader(r.Name)}
		}
	}
	return own
}

// getHeader makes the headers of a GET, which opens or resumes a stream.
func (h *httpHead) getHeader(lastEvent string) http.Header {
	own := maps.Clone(h.header)
	delete(own, "Content-Type")
	own["Accept"] = []string{"text/event-stream"}
	if lastEvent != "" {
		own["Last-Event-Id"] = []string{lastEvent}
	}
	return own
}
