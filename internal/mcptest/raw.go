package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Raw is an upstream MCP server whose definitions and results are JSON text,
// sent as they stand. The zero value is a server of both eras that offers
// nothing. Its exported fields are set before it serves, or inside Change.
//
// Raw is an [http.Handler]; over pipes it is run by Serve.
type Raw struct {
	Era     Era    // default Both
	Version string // answered to initialize; default what the client asked for

	Tools, Prompts, Resources, Templates []string // definitions
	PageSize                             int      // definitions on a page of a list; 0 is all

	// Results and Errors answer requests by "method name", or by "method" for
	// any name: "tools/call echo", "prompts/get", "resources/read file:///x".
	// A tool that is listed and has no result echoes its arguments as text.
	Results, Errors map[string]string

	Capabilities string // default: everything, with list changes and subscriptions
	ServerInfo   string // default: {"name":"raw","version":"1"}
	Instructions string

	EventStream bool // HTTP: answer with an event stream even if there is one message only
	Stateless   bool // HTTP: give out no session ids
	NoStream    bool // HTTP: refuse the GET stream with 405
	AdmitFirst  bool // HTTP: Answer is not asked about requests of an unknown session
	Unrecorded  bool // keep no requests, so that a long run does not fill the memory

	// Answer, if set, may answer any request in any way; nil is the usual one.
	Answer func(*Request) *Answer

	mu       sync.Mutex // guards the fields above in Change, and all below
	requests []*Request
	arrived  chan struct{} // closed and replaced when a message arrives
	sessions map[string]bool
	streams  map[*stream]bool
	lastID   int
	asked    map[string]chan *Request // id of a request to the client → who waits for the response
	lastAsk  int
}

// Answer says how one request is answered. The zero value is the usual answer.
type Answer struct {
	Before []string        // whole messages sent first: progress, logging, requests
	Result string          // result in place of the usual one
	Error  string          // error object in place of a result
	ID     string          // id of the response, in place of the request's own
	Whole  string          // bytes in place of the whole response message
	Twice  bool            // the response is sent two times
	Delay  time.Duration   // before anything is sent
	Hold   <-chan struct{} // nothing is sent before it is closed
	Silent bool            // nothing is ever sent; the request stays open
	Close  bool            // the connection is dropped: HTTP hangs up, pipes end
	Reset  bool            // over HTTP: the connection is reset

	// Write, on pipes, writes anything in place of the response, while nobody else writes.
	Write func(io.Writer) error

	// Asking is run before the response. It may ask the client, and returns the result
	// of the response, "" for the usual one. Over HTTP it asks on the stream of the
	// response or, with Aside, on the GET stream.
	Asking func(Ask) string
	Aside  bool

	HTTP *HTTPAnswer // over HTTP: this, and no MCP at all
}

// HTTPAnswer is an answer at the HTTP level.
type HTTPAnswer struct {
	Status int
	Header map[string]string
	Body   string
}

// Change runs f while no request is being looked up, so that f may set fields.
func (r *Raw) Change(f func(r *Raw)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// Requests returns every message received so far, in order of arrival.
func (r *Raw) Requests() []*Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Received returns the messages of one method received so far.
func (r *Raw) Received(method string) []*Request {
	all := r.Requests()
	return slices.DeleteFunc(all, func(q *Request) bool { return q.Method != method })
}

// Await returns the messages of one method as soon as there are n of them.
func (r *Raw) Await(ctx context.Context, method string, n int) ([]*Request, error) {
	for {
		r.mu.Lock()
		if r.arrived == nil {
			r.arrived = make(chan struct{})
		}
		arrived := r.arrived
		r.mu.Unlock()
		got := r.Received(method)
		if len(got) >= n {
			return got, nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return got, fmt.Errorf("waiting for %d %s, got %d: %w", n, method, len(got), context.Cause(ctx))
		}
	}
}

// ForgetSessions makes every session unknown, as a restart would.
func (r *Raw) ForgetSessions() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.sessions)
}

func (r *Raw) record(q *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.Unrecorded {
		r.requests = append(r.requests, q)
	}
	if r.arrived != nil {
		close(r.arrived)
		r.arrived = nil
	}
	r.answeredLocked(q)
}

// respond makes the answer to a request: the scripted one, completed.
func (r *Raw) respond(q *Request) Answer {
	var a Answer
	r.mu.Lock()
	script := r.Answer
	r.mu.Unlock()
	if script != nil {
		if scripted := script(q); scripted != nil {
			a = *scripted
		}
	}
	if a.Whole != "" || a.Silent || a.HTTP != nil || a.Write != nil {
		return a
	}
	if a.Result == "" && a.Error == "" {
		a.Result, a.Error = r.usual(q)
	}
	id := q.ID
	if a.ID != "" {
		id = json.RawMessage(a.ID)
	}
	if a.Error != "" {
		a.Whole = string(errorMessage(id, a.Error))
	} else {
		a.Whole = string(resultMessage(id, decorate(q, a.Result)))
	}
	return a
}

// decorate adds what every result of the modern era carries.
func decorate(q *Request, result string) string {
	if q.Era != Modern {
		return result
	}
	if strings.HasSuffix(q.Method, "/list") || q.Method == "resources/read" || q.Method == "server/discover" {
		result = addMissing(result, "cacheScope", `"private"`)
		result = addMissing(result, "ttlMs", "0")
	}
	return addMissing(result, "resultType", `"complete"`)
}

func addMissing(result, name, value string) string {
	if Field([]byte(result), name) != nil {
		return result
	}
	return Put(result, name, value)
}

// usual returns the result or the error object of a well-behaved server.
func (r *Raw) usual(q *Request) (result, failure string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range []string{q.Method + " " + q.Name, q.Method} {
		if e, ok := r.Errors[key]; ok {
			return "", e
		}
		if res, ok := r.Results[key]; ok {
			return res, ""
		}
	}
	if r.eraLocked()&q.Era == 0 {
		return "", wrongEra(q)
	}
	switch q.Method {
	case "initialize":
		return r.initializeResultLocked(q), ""
	case "server/discover":
		return r.discoverResultLocked(), ""
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		if q.Era == Legacy {
			return "{}", ""
		}
	case "subscriptions/listen":
		if q.Era == Modern {
			return "{}", ""
		}
	case "tools/list":
		return page("tools", r.Tools, r.PageSize, q.Cursor)
	case "prompts/list":
		return page("prompts", r.Prompts, r.PageSize, q.Cursor)
	case "resources/list":
		return page("resources", r.Resources, r.PageSize, q.Cursor)
	case "resources/templates/list":
		return page("resourceTemplates", r.Templates, r.PageSize, q.Cursor)
	case "tools/call":
		return r.echoLocked(q)
	case "completion/complete":
		return `{"completion":{"values":[]}}`, ""
	case "prompts/get":
		return "", errorObject(-32602, "unknown prompt: "+q.Name)
	case "resources/read":
		return "", unknownResource(q)
	}
	return "", errorObject(-32601, "method not found: "+q.Method)
}

func (r *Raw) eraLocked() Era {
	if r.Era == 0 {
		return Both
	}
	return r.Era
}

// unknownResource is the error each era has for it.
func unknownResource(q *Request) string {
	code := "-32002"
	if q.Era == Modern {
		code = "-32602"
	}
	return `{"code":` + code + `,"message":"Resource not found","data":{"uri":` + Quote(q.Name) + `}}`
}

// wrongEra is how a server that speaks only the other era refuses a request.
func wrongEra(q *Request) string {
	if q.Era == Modern {
		return errorObject(-32601, "method not found: "+q.Method)
	}
	return `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["` + ModernVersion + `"]}}`
}

func (r *Raw) initializeResultLocked(q *Request) string {
	version := r.Version
	if version == "" {
		version = LegacyVersion
		var asked string
		if json.Unmarshal(Field(q.Params, "protocolVersion"), &asked) == nil && asked < ModernVersion && asked != "" {
			version = asked
		}
	}
	result := `{"protocolVersion":` + Quote(version) + `,"capabilities":` + r.capabilitiesLocked() + `,"serverInfo":` + r.infoLocked()
	if r.Instructions != "" {
		result += `,"instructions":` + Quote(r.Instructions)
	}
	return result + "}"
}

func (r *Raw) discoverResultLocked() string {
	result := `{"supportedVersions":["` + ModernVersion + `"],"capabilities":` + r.capabilitiesLocked() +
		`,"_meta":{"` + reserved + `serverInfo":` + r.infoLocked() + `}`
	if r.Instructions != "" {
		result += `,"instructions":` + Quote(r.Instructions)
	}
	return result + "}"
}

func (r *Raw) capabilitiesLocked() string {
	if r.Capabilities != "" {
		return r.Capabilities
	}
	return `{"tools":{"listChanged":true},"prompts":{"listChanged":true},` +
		`"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}`
}

func (r *Raw) infoLocked() string {
	if r.ServerInfo != "" {
		return r.ServerInfo
	}
	return `{"name":"raw","version":"1"}`
}

// echoLocked answers a call of a listed tool with its arguments.
func (r *Raw) echoLocked(q *Request) (result, failure string) {
	for _, def := range r.Tools {
		var name string
		if json.Unmarshal(Field([]byte(def), "name"), &name) == nil && name == q.Name {
			return `{"content":[{"type":"text","text":` + Quote(string(Field(q.Params, "arguments"))) + `}]}`, ""
		}
	}
	return "", errorObject(-32602, "unknown tool: "+q.Name)
}

// page renders one page of a list. A cursor is the number of its first definition.
func page(kind string, defs []string, size int, cursor string) (result, failure string) {
	from := 0
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n <= 0 || n >= len(defs) {
			return "", errorObject(-32602, "unknown cursor: "+cursor)
		}
		from = n
	}
	to := len(defs)
	next := ""
	if size > 0 && from+size < to {
		to = from + size
		next = `,"nextCursor":"` + strconv.Itoa(to) + `"`
	}
	return `{"` + kind + `":[` + strings.Join(defs[from:to], ",") + "]" + next + "}", ""
}
