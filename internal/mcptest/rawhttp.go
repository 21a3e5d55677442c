package mcptest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Disconnect is the method under which it is recorded that an HTTP client went
// away before its request was answered.
const Disconnect = "disconnect"

// ServeHTTP is the server as a Streamable HTTP endpoint. What it received over
// GET and DELETE is recorded as requests of these methods.
func (r *Raw) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	q := &Request{Method: req.Method, Era: Legacy}
	if req.Method == http.MethodPost {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if q, err = ParseRequest(body); err != nil {
			writeJSON(w, http.StatusBadRequest, errorMessage(json.RawMessage("null"), errorObject(-32700, err.Error())))
			return
		}
	}
	q.Header = req.Header
	r.record(q)
	r.mu.Lock()
	admitFirst := r.AdmitFirst
	r.mu.Unlock()
	if admitFirst && !r.admit(w, q) {
		return
	}
	a := r.respond(q)
	if a.HTTP != nil {
		a.HTTP.write(w)
		return
	}
	if !admitFirst && !r.admit(w, q) {
		return
	}
	switch {
	case req.Method == http.MethodGet:
		r.getStream(w, req)
	case req.Method == http.MethodDelete:
		r.endSession(req.Header.Get("Mcp-Session-Id"))
	case q.ID == nil || q.Method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		r.answerHTTP(w, req, q, a)
	}
}

// admit refuses what a strict server refuses before it looks at the message.
func (r *Raw) admit(w http.ResponseWriter, q *Request) bool {
	header := q.Header
	r.mu.Lock()
	stateless, noStream, era := r.Stateless, r.NoStream, r.eraLocked()
	known := r.sessions[header.Get("Mcp-Session-Id")]
	r.mu.Unlock()
	switch {
	case q.Method == http.MethodGet && (noStream || era == Modern), q.Method == http.MethodDelete && era == Modern:
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return false
	case q.Era == Modern && era&Modern != 0:
		if problem := headerProblem(q, header); problem != "" {
			writeJSON(w, http.StatusBadRequest, errorMessage(q.ID, errorObject(-32020, problem)))
			return false
		}
		return true
	case q.Era == Legacy && era == Modern && q.Method != "initialize":
		writeJSON(w, http.StatusBadRequest, errorMessage(json.RawMessage("null"), wrongEra(q)))
		return false
	case q.Method == "initialize" || stateless || known:
		return true
	case header.Get("Mcp-Session-Id") == "":
		http.Error(w, "Bad Request: no session", http.StatusBadRequest)
		return false
	}
	writeJSON(w, http.StatusNotFound, errorMessage(json.RawMessage("null"), errorObject(-32001, "Session not found")))
	return false
}

// headerProblem compares the headers of a modern request with its body.
func headerProblem(q *Request, header http.Header) string {
	var version string
	_ = json.Unmarshal(Field(Field(q.Params, "_meta"), metaVersion), &version)
	named := q.Method == "tools/call" || q.Method == "prompts/get" || q.Method == "resources/read" || strings.HasPrefix(q.Method, "tasks/")
	switch name, err := decodeHeader(header.Get("Mcp-Name")); {
	case header.Get("Mcp-Protocol-Version") != version:
		return fmt.Sprintf("MCP-Protocol-Version %q, body says %q", header.Get("Mcp-Protocol-Version"), version)
	case header.Get("Mcp-Method") != q.Method:
		return fmt.Sprintf("Mcp-Method %q, body says %q", header.Get("Mcp-Method"), q.Method)
	case err != nil:
		return fmt.Sprintf("Mcp-Name: %v", err)
	case named && name != q.Name:
		return fmt.Sprintf("Mcp-Name %q, body says %q", name, q.Name)
	}
	return ""
}

func decodeHeader(v string) (string, error) {
	inner, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, nil
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(inner, "?="))
	return string(b), err
}

func (r *Raw) answerHTTP(w http.ResponseWriter, req *http.Request, q *Request, a Answer) {
	ctx := req.Context()
	if a.Reset {
		reset(w)
	}
	if a.Close {
		panic(http.ErrAbortHandler)
	}
	if wait(ctx, a) != nil {
		r.record(&Request{Method: Disconnect, ID: q.ID, Name: q.Name, Era: q.Era, Header: q.Header})
		return
	}
	if q.Method == "initialize" && Field([]byte(a.Whole), "result") != nil {
		r.mu.Lock()
		if !r.Stateless {
			w.Header().Set("Mcp-Session-Id", r.newSessionLocked())
		}
		r.mu.Unlock()
	}
	listening := q.Method == "subscriptions/listen" && q.Era == Modern && a.Error == ""
	r.mu.Lock()
	eventStream := r.EventStream
	r.mu.Unlock()
	if !eventStream && len(a.Before) == 0 && !a.Twice && a.Asking == nil && !listening {
		writeJSON(w, statusOf(q, a), []byte(a.Whole))
		return
	}
	out := startEvents(w)
	defer out.end()
	if listening {
		_ = r.listen(ctx, q, out.send)
		return
	}
	if r.asking(ctx, q, &a, out.send) != nil {
		return
	}
	for _, msg := range a.messages() {
		if out.send([]byte(msg)) != nil {
			return
		}
	}
}

// reset ends the connection of a request with a TCP reset, and the handler.
func reset(w http.ResponseWriter) {
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		abort(conn)
	}
	panic(http.ErrAbortHandler)
}

// messages returns everything to send, in order.
func (a *Answer) messages() []string {
	msgs := append(append([]string{}, a.Before...), a.Whole)
	if a.Twice {
		msgs = append(msgs, a.Whole)
	}
	return msgs
}

// wait holds an answer back for as long as it asks.
func wait(ctx context.Context, a Answer) error {
	hold := a.Hold
	if a.Silent {
		hold = make(chan struct{})
	}
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if a.Delay > 0 {
		select {
		case <-time.After(a.Delay):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// statusOf gives the HTTP status of a response: the modern era mirrors some codes.
func statusOf(q *Request, a Answer) int {
	var code int
	_ = json.Unmarshal(Field([]byte(a.Error), "code"), &code)
	switch {
	case q.Era == Legacy && code != -32022 || code == 0:
		return http.StatusOK
	case code == -32601:
		return http.StatusNotFound
	case code == -32602 || code <= -32020 && code >= -32099:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func (r *Raw) newSessionLocked() string {
	if r.sessions == nil {
		r.sessions = make(map[string]bool)
	}
	r.lastID++
	id := "raw-session-" + strconv.Itoa(r.lastID)
	r.sessions[id] = true
	return id
}

func (r *Raw) endSession(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, id)
}

func (r *Raw) getStream(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := &events{w: w}
	defer out.end()
	defer r.open(&stream{send: out.send})() // before the client can know of it
	out.flush()
	<-req.Context().Done()
}

// events is an answer that is an event stream.
type events struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	over bool // the handler returns: w must not be used any more
}

// startEvents turns an answer into an event stream. The handler must end it.
func startEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	return &events{w: w}
}

func (e *events) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = http.NewResponseController(e.w).Flush()
}

func (e *events) send(msg []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return http.ErrHandlerTimeout
	}
	if _, err := fmt.Fprintf(e.w, "event: message\ndata: %s\n\n", msg); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
}

func (h *HTTPAnswer) write(w http.ResponseWriter) {
	for k, v := range h.Header {
		w.Header().Set(k, v)
	}
	w.WriteHeader(h.Status)
	_, _ = io.WriteString(w, h.Body)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// HTML, Unauthorized and Garbage are what stands behind a wrong URL.
var (
	HTML = &HTTPAnswer{Status: 200, Header: map[string]string{"Content-Type": "text/html"},
		Body: "<!doctype html><title>Welcome</title><h1>It works</h1>"}
	Unauthorized = &HTTPAnswer{Status: 401, Header: map[string]string{"WWW-Authenticate": `Bearer realm="mcp"`},
		Body: "who are you?"}
	Garbage = &HTTPAnswer{Status: 200, Header: map[string]string{"Content-Type": "application/json"},
		Body: "\x00\x01{]not json"}
)

// Always answers every request in the same way.
func Always(a Answer) func(*Request) *Answer {
	return func(*Request) *Answer { return &a }
}

// On answers the requests of one method in this way, all others as usual.
func On(method string, a Answer) func(*Request) *Answer {
	return func(q *Request) *Answer {
		if q.Method != method {
			return nil
		}
		return &a
	}
}
