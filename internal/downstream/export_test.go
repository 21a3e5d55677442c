package downstream

import (
	"context"

	"mcp-aggregator/internal/router"
)

// Outbox makes the queue of a client testable by itself.
type Outbox struct{ o *outbox }

// NewOutbox returns a queue that frames messages as lines.
func NewOutbox(maxCount, maxBytes int, drop func()) Outbox {
	return Outbox{newOutbox(maxCount, maxBytes, appendLine, drop)}
}

func (b Outbox) Offer(msg string) bool                     { return b.o.offer([]byte(msg)) }
func (b Outbox) Put(ctx context.Context, msg string) error { return b.o.put(ctx, []byte(msg)) }
func (b Outbox) Close()                                    { b.o.close() }
func (b Outbox) Drain(ctx context.Context, write func([]byte) error) error {
	return b.o.drain(ctx, write, nil)
}

var (
	ChooseEra    = chooseEra
	DecodeHeader = decodeHeader
	CompareParam = compareParam
	Stamp        = stamp
	AppendEvent  = appendEvent
	AppendLine   = appendLine
)

// Carry puts f in the place of the router for calls.
func (s *Server) Carry(f func(context.Context, *router.Call) router.Reply) { s.carry = f }

const MaxQuestions = maxQuestions
