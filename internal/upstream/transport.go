package upstream

import (
	"context"
	"fmt"
	"net/http"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/wire"
)

// A transport is a Conn as its opener returns it: connected, the handshake not yet
// done. It does no handshake of its own.
type transport interface {
	Conn

	// setInfo replaces what Info returns. The handshake calls it several times:
	// before each attempt with the era that is being tried, so that HTTP can send
	// the headers of that era (the modern probe is a modern request; an initialize
	// has an empty Version and goes out without a version header), and at the end
	// with what was agreed.
	setInfo(*Info)
}

// An opener connects one type of transport. Notices, requests and log messages
// that belong to no call go to notice, on the reader: it must not block. The
// error is a *fault.Error. When ctx ends after the opener has returned, the
// transport lives on.
type opener func(ctx context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error)

// What a transport may offer beyond the interface.
type (
	// A processTransport has a child process at the other end.
	processTransport interface {
		pid() int
		stderrTail() []string // the last lines, oldest first
	}

	// A countingTransport counts what its server sent and nobody could use: lines
	// that were no messages, answers to nothing.
	countingTransport interface {
		skippedLines() int64
	}

	// A sessionTransport notices that its server has forgotten the session and calls
	// the hook to open another one on the same connection, while its calls wait.
	// Everything the hook sends must use the context it is given.
	sessionTransport interface {
		setReinit(hook func(context.Context) error)
	}

	// A streamTransport can open the stream on which a legacy server sends what
	// belongs to no call (HTTP GET). openStream returns when ctx or the connection
	// ends, or with an error if the server does not offer the stream; it reconnects
	// by itself, hands what arrives to the notice function of the opener, and calls
	// opened each time the stream is there, and before that missed when the stream is back after a time without, in which the server may
	// have said something that it will not repeat.
	streamTransport interface {
		openStream(ctx context.Context, opened, missed func()) error
	}

	// A listenTransport carries subscriptions/listen of modern servers on a stream
	// of its own. listen returns when ctx ends, with nil after the server has ended
	// the subscription in an orderly way, with an error when it refused it or the
	// stream broke. Params are complete. What arrives, the acknowledgement included,
	// goes to the notice function of the opener. On a transport without it listen is
	// an ordinary call that stays open.
	listenTransport interface {
		listen(ctx context.Context, params wire.Value) error
	}
)

// A statusError is in the chain of a *fault.Error when an HTTP peer answered with
// a status and no JSON-RPC message. The handshake decides by it whether something
// older than Streamable HTTP may live at the address.
type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("HTTP status %d %s", e.status, http.StatusText(e.status))
}
