package router

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/breaker"
	"mcp-aggregator/internal/bridge"
	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/upstream"
	"mcp-aggregator/internal/wire"
)

// A Generation is everything calls see of the configuration and of the upstreams'
// offers. It is replaced whole, never modified.
type Generation struct {
	Number  int64
	Config  *config.Config
	Servers map[string]*config.Server // server name → its configuration
	Catalog *catalog.Snapshot

	// Masks hide secrets in what servers say: server name → its masker; nil hides nothing.
	Masks map[string]*mask.Masker

	// Shrinks: the results of some tool are not just passed on.
	Shrinks bool

	// Starting: some server may still bring its first listing; no attempt to connect
	// it has failed yet.
	Starting bool
}

// A Call is one request of a client for an upstream. Whoever gets a Call may read
// it and pass on a changed copy.
type Call struct {
	Gen    *Generation
	Method string
	Params *wire.Object // as the client sent them; its bytes are the caller's again once the call is over

	Era      wire.Era // the client's
	Links    bool     // the client knows links to resources; modern ones do anyway
	Session  string   // key of the client's session, "" if it has none
	LogLevel string   // the least log level the client wants, "" if it named none

	// Events receives what the upstream says during the call, ready for the client,
	// in order and before the reply. It must not block. nil: nobody listens.
	Events func(upstream.Event)

	// Principal is who is calling, "" for the anonymous caller: a state that one
	// principal was given is of no use to another.
	Principal string

	// Caps are the capabilities the client has declared, raw: a legacy client's at
	// initialize, a modern one's with this request. nil if it declared none.
	Caps []byte

	// Ask sends a request of an upstream to the client whose call this is, and waits for
	// the answer; when ctx ends, the client is told so. The result is the caller's to
	// keep. Progress receives the params of the client's progress notifications before
	// that, in order; nil: nobody wants them. It may be called from any goroutine as long as the call is not answered, by
	// several at a time. nil: the client takes no requests (a modern one, or one that
	// has no stream for them).
	Ask func(ctx context.Context, method string, params []byte, progress func(params []byte)) (result []byte, err *wire.RPCError)

	// Cancel ends the context of the call with a cause; nil if the caller has no such
	// context. With it a deadline costs a timer and not a context of its own.
	Cancel context.CancelCauseFunc

	// Header are the HTTP headers of the client's request, read only; nil on stdio.
	Header http.Header

	target             // set by resolve
	meta   bridge.Meta // of Params

	// Of this call alone, and so in the copy that the stages pass on.
	id       int64                // for those who watch calls; 0: nobody has been told of it
	began    time.Time            // when observe saw it
	server   *config.Server       // the settings of Server; nil if the configuration has none
	override *config.ToolOverride // those of the tool; nil if it has none
	ticket   breaker.Ticket       // what the breaker has let it through with
	conn     upstream.Conn        // lent by acquire, for one attempt
	spent    time.Duration        // what earlier attempts and pauses took of the time the call has
	progress func()               // told of each progress notification; nil: nobody cares
	mute     bool                 // the client has not asked for progress
	standsIn bool                 // for another tool, as its fallback, or goes to it and no other
	goesOn   bool                 // with answers of the client: the call itself has been let through before
	answers  bool                 // with answers of the client, too, but let through like any other
	creates  bool                 // a task in place of a result is wanted, in the way of legacy clients
	asked    *asked               // what the client has called; of modern clients only
	asks     func(upstream.Ask)   // takes what a legacy server asks the client; nil: it cannot be asked
	clock    *clock               // stands still while the client is asked; nil: it is not
	masker   *masker              // of Server; nil: nothing is hidden
	furthest *atomic.Int64        // how far the server has said it is; nil: nobody cares
	host     *parked              // of the call of a modern client that may have to wait without it; nil: it does not
}

// config is the configuration that the call runs under.
func (c *Call) config() *config.Config {
	if c.Gen.Config == nil {
		return defaults
	}
	return c.Gen.Config
}

var defaults = config.Default()

// aim directs the call.
func (c *Call) aim(t target) {
	c.target = t
	c.server = c.Gen.Servers[t.Server]
	c.override = nil
	if c.server != nil && len(c.server.ToolOverrides) > 0 && c.Method == "tools/call" {
		c.override = c.server.ToolOverrides[t.Name]
	}
}

// tool is the server's own name of the tool that is called, "" if none is.
func (c *Call) tool() string {
	if c.Method != "tools/call" {
		return ""
	}
	return c.Name
}

// safe reports whether executing the call twice does no harm: what a tool says of
// itself counts unless the configuration knows better; the other methods only read.
func (c *Call) safe() bool {
	switch {
	case c.Method != "tools/call":
		return true
	case c.override != nil && c.override.Idempotent != nil:
		return *c.override.Idempotent
	}
	return c.Entry.ReadOnly || c.Entry.Idempotent
}

// target is where a call goes.
type target struct {
	Server string // "" until resolved
	Entry  *catalog.Entry
	Name   string      // the upstream's own name or URI
	edits  []wire.Edit // put Name in the place of what the client wrote
	task   *taskCall   // which task the call is about; nil: none
}

// A Reply answers a call: exactly one of Result and Err is set.
type Reply struct {
	Result wire.Value
	Err    *wire.RPCError

	ToolError bool // the result says that the tool has failed
	parked    bool // the result asks the client for something while the call goes on

	// Release gives the buffer under Result back once it has been written; nil if
	// there is nothing to give back.
	Release func()

	asking *asking // in place of a result: a modern server asks a legacy client
	by     *Call   // the call that the server has answered, which may be that of a fallback; nil: no server has
}

// A Handler carries a call on. Its error is a *fault.Error, or a *wire.RPCError to
// be answered as it is.
type Handler func(ctx context.Context, c *Call) (Reply, error)

// A Stage is one step of the path, around the next.
type Stage func(next Handler) Handler
