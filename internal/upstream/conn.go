package upstream

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// A Conn is one live connection to an upstream server, whatever its transport. It
// is safe for concurrent use; the failure of one call never touches another.
type Conn interface {
	// Call sends one request and waits for its answer. A JSON-RPC error of the peer
	// is Reply.Err; error is always a *fault.Error and says whether the request can
	// have been executed (fault.Unreachable against fault.Lost). When ctx ends, the
	// peer is told to cancel.
	Call(ctx context.Context, r *Request) (Reply, error)
	// Notify sends a notification.
	Notify(ctx context.Context, method string, params wire.Value) error
	// Info is what the handshake found out; replaced whole, never modified.
	Info() *Info
	// Done is closed when the transport is lost or closed.
	Done() <-chan struct{}
	// Err says why, after Done.
	Err() error
	// Close ends the connection in an orderly way, bounded by ctx, and waits for
	// everything the connection started.
	Close(ctx context.Context) error
}

// A Request is one call to an upstream.
type Request struct {
	ID     int64      // from NextID; also the progress token the upstream sees
	Method string     //
	Params wire.Value // as this upstream must see them

	// Name is params.name or params.uri as the upstream knows it, for the Mcp-Name
	// header of modern HTTP; empty if the method has neither.
	Name string

	// Session says whose call it is, "" if that is not known: what a server asks without
	// saying for which call may go to another call of the same session, never to one of
	// another session.
	Session string

	// Task is the server's id of the task that the request is about, "" if there is none:
	// what a server asks for the sake of a task goes to a request that is about it.
	Task string

	// Header are further HTTP headers: those of forward_headers and Mcp-Param-*.
	Header http.Header

	// Events receives what the upstream sends because of this call, in order and
	// before Call returns. It runs on the reader of the connection and must not
	// block. nil drops them.
	Events func(Event)

	// Ask receives what the upstream asks the client during this call, before Call
	// returns. It must not block. One request can come several times, if it goes from
	// one call of a session to another because the first one has ended; Done of the one
	// before is closed then. nil: the client cannot be asked, and the upstream is told so.
	Ask func(Ask)
}

// An Ask is a request of an upstream that belongs to a call in flight: sampling,
// elicitation, roots.
type Ask struct {
	Method string
	Params []byte // raw, owned by the receiver; nil if there are none

	// Answer sends the response: the raw result, or the error if that is not nil. Any
	// goroutine may call it, and it does not wait. The first call counts; none after
	// Done has been closed.
	Answer func(result []byte, err *wire.RPCError)

	// Progress passes the params of a progress notification of the client on, whatever
	// its token, if Answer has not been called. It does not wait, and may drop it. nil: the
	// upstream does not want to hear of it.
	Progress func(params []byte)

	// Done is closed when nobody waits for the answer any more: it has been given, the
	// upstream has withdrawn the request, the call has ended, the connection is lost.
	Done <-chan struct{}
}

// An Event is a message of the upstream that belongs to a call in flight.
type Event struct {
	Method string
	Params []byte // raw; valid only during the callback
	ID     []byte // raw id if the upstream expects an answer, nil for a notification
}

// A Reply is the answer to a call: a result or the peer's JSON-RPC error.
type Reply struct {
	Result wire.Object // the result and where its members lie
	Err    *wire.RPCError

	release func()
}

// Pooled reports whether the reply has a buffer to give back.
func (r *Reply) Pooled() bool { return r.release != nil }

// Release gives the reply's buffer back for another call to use. It is optional;
// nothing of the reply may be touched afterwards.
func (r *Reply) Release() {
	if f := r.release; f != nil {
		*r = Reply{}
		f()
	}
}

// Info is what the handshake found out about a server.
type Info struct {
	Era          wire.Era
	Version      string // protocol revision
	Capabilities []byte // raw JSON object
	ServerInfo   []byte // raw JSON object: name, version, ...
	Instructions string
}

// A Notice is a notification that belongs to no call: list changes, resource
// updates.
type Notice struct {
	Server  string
	Session string // whose it is: it came on the connection of that session, or names what only that one was shown; else ""
	Method  string
	Params  []byte // owned by the receiver
}

// Options are what all connections share. The zero value of a field is usable.
type Options struct {
	Log      *slog.Logger
	Limits   config.Limits
	Version  string                        // ours, for clientInfo
	Builtins map[string]func() *mcp.Server // builtin server name → constructor

	// StartConcurrency is how many server processes start at the same time, 8 if 0.
	StartConcurrency int

	// AcquireTimeout is how long Use waits for a server that is being started or
	// restarted, 60 s if 0.
	AcquireTimeout time.Duration

	// Notify receives the notices of all servers. It must not block.
	Notify func(Notice)

	// Ask hands a request of a server that came on a session's own connection, and that no
	// call is the cause of, to the client of the session. It must not block; false: that
	// client cannot be asked now. nil: none can.
	Ask func(server, session string, a Ask) bool

	// Capabilities returns what the legacy client of a session has declared, raw; false if
	// it is not known, or no legacy client. A session's own connection to a legacy server
	// declares that and no more.
	Capabilities func(session string) (declared []byte, ok bool)

	// Mask hides secrets in a text of a server that is about to be shown: an error, a line
	// of its standard error. It runs on any goroutine. nil: only those of the server's own
	// configuration are hidden.
	Mask func(server, text string) string

	// Recovered is told that a server works again that had been lost, could not be
	// connected or did not answer probes. It must not block.
	Recovered func(server string)

	// Recall returns what a server offered when it was last seen, perhaps by another
	// process; nil if nothing is known. Keep stores it for that. Both may be nil; Keep
	// is not called for one server by several goroutines at once.
	Recall func(*config.Server) *catalog.Kept
	Keep   func(*config.Server, *catalog.Kept)
}

var lastID atomic.Int64

// NextID returns a number that is unique in this process, to be used as the id of a
// request to an upstream.
func NextID() int64 { return lastID.Add(1) }
