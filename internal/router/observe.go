package router

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/telemetry"
	"mcp-aggregator/internal/wire"
)

const levelCall = slog.LevelDebug

// Watch are hooks for what happens to calls, for those who count it. Each may be nil;
// they run on the path of the call and must not block.
type Watch struct {
	// Started is told of a call of a tool once it is known where it goes, and Ended how
	// it ended. Both have the same number. A call that has to wait for answers of a modern
	// client, which come with other requests, is one.
	Started func(id int64, server, tool string)
	Ended   func(id int64, server, tool, kind string, took time.Duration)

	// Called is told how a call of a tool ended: telemetry.OK, telemetry.ToolError or
	// the code word of a fault. A call that was answered by a fallback counts for the
	// tool that the client asked for. Server and tool are empty if there is no such tool.
	Called func(server, tool, kind string, took time.Duration)

	Retried     func(server, tool string)                // before each attempt after the first
	QueueWaited func(queue string, waited time.Duration) // by each call that goes through a queue, refused ones included
	RateLimited func(server string)                      // by rate_limit, not by the server
	Sized       func(server string, bytes int)           // of a result of a tool that goes to a client
	Masked      func(server, kind string, n int)         // secrets of a kind hidden in what a server said
	Fell        func(from, to string)                    // as server.tool: to is about to be called in place of from
}

// observe notes how a call began and ended, and completes its error. It makes the copy
// of the call that all stages share.
func (r *Router) observe(next Handler) Handler {
	return func(ctx context.Context, c *Call) (reply Reply, err error) {
		out := *c
		out.began = time.Now()
		panicked := true
		defer func() { r.ended(ctx, &out, &reply, err, panicked) }()
		if reply, err = next(ctx, &out); err != nil {
			err = out.complete(err)
		}
		panicked = false
		return reply, err
	}
}

var callIDs atomic.Int64 // numbers the calls of tools, for those who watch

// started tells that a call of a tool is on its way.
func (r *Router) started(c *Call) {
	if r.watch.Started != nil && c.Method == "tools/call" {
		c.id = callIDs.Add(1)
		r.watch.Started(c.id, c.Server, c.tool())
	}
}

// tellEnd tells how a call ended that those who watch have been told of.
func (r *Router) tellEnd(c *Call, kind string) {
	if c.id == 0 || r.watch.Ended == nil {
		return
	}
	began := c.began
	if c.host != nil { // with an earlier request
		began = c.host.call.began
	}
	r.watch.Ended(c.id, c.Server, c.tool(), kind, time.Since(began))
}

// ended tells of the end of a call, or of the part of it that a client waits for.
func (r *Router) ended(ctx context.Context, c *Call, reply *Reply, err error, panicked bool) {
	logged := r.log.Enabled(ctx, levelCall)
	counted := r.watch.Called != nil && c.Method == "tools/call"
	if !logged && !counted && c.id == 0 && r.watch.Sized == nil {
		return
	}
	kind := telemetry.OK
	switch {
	case panicked:
		kind = fault.Internal.String()
	case err != nil:
		kind = kindOf(err).String()
	case reply.Err != nil:
		kind = fault.Rejected.String()
	case reply.ToolError:
		kind = telemetry.ToolError
	}
	took := time.Since(c.began)
	if !reply.parked {
		r.tellEnd(c, kind)
	}
	if sized := r.watch.Sized; sized != nil && err == nil && !reply.parked && c.Method == "tools/call" {
		sized(c.Server, reply.Result.Len())
	}
	if counted {
		r.watch.Called(c.Server, c.tool(), kind, took)
	}
	if logged {
		r.log.Log(ctx, levelCall, "call", "method", c.Method, "server", c.Server, "kind", kind, "took", took, "err", err)
	}
}

// kindOf is the kind of the error of a call. A refusal of ours that is answered as it
// is, such as that of an unknown name, counts as rejected.
func kindOf(err error) fault.Kind {
	if _, ok := errors.AsType[*wire.RPCError](err); ok {
		return fault.Rejected
	}
	return fault.KindOf(err)
}

// complete adds to an error which tool of which server it is about.
func (c *Call) complete(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || c.Server == "" {
		return err
	}
	full := *f
	if full.Server == "" {
		full.Server = c.Server
	}
	if full.Tool == "" && full.Server == c.Server {
		full.Tool = c.tool()
	}
	full.Safe = full.Safe || c.safe()
	return &full
}
