package downstream

import (
	"bytes"
	"context"
	"net/http"
	"sync"

	"mcp-aggregator/internal/wire"
)

// maxBatch is how many messages one batch may hold.
const maxBatch = 1000

// postBatch serves a POST with a batch: only sessions of the one revision that has
// batches may send it.
func (s *Server) postBatch(x *exchange, raw []byte) *refusal {
	sess, no := s.sessionOf(x.r)
	if no != nil {
		return no
	}
	if v := one(x.r.Header, headerVersion); v != "" && v != wire.V20250326 || sess.agreed() != wire.V20250326 {
		return &refusal{status: http.StatusBadRequest, err: noBatches()}
	}
	x.session = sess
	responses, rpc := s.batch(x.r.Context(), &x.request, raw)
	switch {
	case rpc != nil:
		return &refusal{status: http.StatusBadRequest, err: rpc}
	case responses == nil:
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	x.write(responses, http.StatusOK)
	return nil
}

func noBatches() *wire.RPCError {
	return invalidRequest("Invalid request: batches exist only in revision " + wire.V20250326)
}

// batch carries out the messages of a batch side by side and returns the batch of
// responses, nil if there are none. What its requests share is taken from like.
func (s *Server) batch(ctx context.Context, like *request, raw []byte) ([]byte, *wire.RPCError) {
	if err := wire.Valid(raw); err != nil {
		_, rpc := scanError(err)
		return nil, rpc
	}
	var messages [][]byte
	for e := range wire.Elements(raw, wire.Span{Lo: bytes.IndexByte(raw, '['), Hi: len(raw)}) {
		if messages = append(messages, e.Of(raw)); len(messages) > maxBatch {
			return nil, invalidRequest("Invalid request: the batch is too large")
		}
	}
	if len(messages) == 0 {
		return nil, invalidRequest("Invalid request: the batch is empty")
	}
	responses := make([][]byte, len(messages))
	var work sync.WaitGroup
	for i, raw := range messages {
		if q, response := s.batched(like, raw); q != nil {
			work.Go(func() { responses[i] = s.batchedRequest(ctx, q) })
		} else {
			responses[i] = response
		}
	}
	work.Wait()
	return join(responses), nil
}

// batched looks at one message of a batch: a request is returned, everything else is
// done at once; response is what a message that is refused gets.
func (s *Server) batched(like *request, raw []byte) (q *request, response []byte) {
	m, err := wire.Scan(raw)
	switch {
	case err != nil:
		id, rpc := scanError(err)
		return nil, wire.AppendError(nil, id, rpc)
	case m.Kind == wire.Response:
		like.session.response(&m)
		return nil, nil
	case m.Kind == wire.Notification:
		s.notification(like.session, &m)
		return nil, nil
	case m.Method == "initialize":
		return nil, wire.AppendError(nil, m.ID.Of(raw), invalidRequest("Invalid request: initialize must not be part of a batch"))
	}
	return &request{msg: m, session: like.session, header: like.header, to: like.to}, nil
}

// batchedRequest carries out one request of a batch.
func (s *Server) batchedRequest(ctx context.Context, q *request) []byte {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q.cancel = cancel
	if rpc := q.session.begin(&q.msg, cancel); rpc != nil {
		return wire.AppendError(nil, q.id(), rpc)
	}
	defer q.session.finish(q.id())
	reply := s.dispatch(ctx, q)
	if reply.Release != nil {
		defer reply.Release()
	}
	return appendReply(nil, q.id(), &reply)
}

// join makes a batch of the responses that are there.
func join(responses [][]byte) []byte {
	var b []byte
	for _, r := range responses {
		if r == nil {
			continue
		}
		if b == nil {
			b = []byte{'['}
		} else {
			b = append(b, ',')
		}
		b = append(b, r...)
	}
	if b != nil {
		b = append(b, ']')
	}
	return b
}
