package downstream

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// maxQuestions is how many requests of upstreams one client may have to answer at the
// same time.
const maxQuestions = 64

// A question is a request of an upstream to a legacy client, from the moment it is on
// its way until it is answered or nobody wants the answer any more.
type question struct {
	of     *request // the call that caused it, nil if there is none
	cancel context.CancelCauseFunc
	answer chan answer // buffer 1: there is one answer at most

	progress func(params []byte) // takes progress of the client; nil: the upstream wants none
}

// An answer is what a client says to a question: exactly one is set.
type answer struct {
	result []byte
	err    *wire.RPCError
}

var (
	errAnswered  = fault.Of(fault.Cancelled, "", "the call that caused the request is over")
	errNotRead   = fault.Of(fault.Overloaded, "", "the client has not read what it was sent before")
	errNobody    = fault.Of(fault.Unreachable, "", "the client has closed the stream of the call")
	errQuestions = fault.Of(fault.Overloaded, "", "the client has %d requests to answer", maxQuestions)
)

// ask puts a request of an upstream to the client whose call caused it, on the stream
// of that call.
func (q *request) ask(ctx context.Context, method string, params []byte, progress func([]byte)) ([]byte, *wire.RPCError) {
	return q.session.ask(ctx, &question{of: q, progress: progress}, q.to.stream, method, params)
}

// ask puts a request of an upstream to the client and waits for the answer: as long as
// ctx, the call, the session and the stream last. A client that is no longer asked is
// told so.
func (sess *Session) ask(ctx context.Context, a *question, stream func() *outbox, method string, params []byte) ([]byte, *wire.RPCError) {
	if len(params) > sess.maxQuestion {
		return nil, unasked(fault.Of(fault.Rejected, "", "a request to the client exceeds limits.answer"))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.cancel, a.answer = cancel, make(chan answer, 1)
	id, err := sess.pose(a)
	if err != nil {
		return nil, unasked(err)
	}
	defer sess.settle(id, a)
	if a.progress != nil {
		params = withToken(params, appendQuestionID(nil, id))
	}
	out, err := sess.put(ctx, stream, appendQuestion(nil, id, method, params))
	if err != nil {
		return nil, unasked(err)
	}
	select {
	case got := <-a.answer:
		return got.result, got.err
	case <-out.done:
		return nil, unasked(errNobody)
	case <-ctx.Done():
		err := endOf(ctx)
		// A client that does not hear this goes on asking its user. There are at most
		// maxQuestions of them more than there is room for, as a question waits for room.
		out.add(appendWithdrawal(nil, id, err))
		return nil, unasked(err)
	}
}

// put puts a message on a stream behind whatever is queued there. It must not be lost, so
// it waits for room, but not for longer than a client may take to read.
func (sess *Session) put(ctx context.Context, stream func() *outbox, msg []byte) (*outbox, *fault.Error) {
	out := stream()
	if out == nil {
		return nil, errAnswered
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sess.patience, errNotRead)
	defer cancel()
	switch err := out.put(ctx, msg); {
	case err == nil:
		return out, nil
	case errors.Is(err, errOutboxClosed):
		return nil, errNobody
	}
	return nil, endOf(ctx)
}

// unasked is what an upstream gets whose request the client has not answered. It says
// what happened and not what to do next, which is meant for clients.
func unasked(f *fault.Error) *wire.RPCError {
	return &wire.RPCError{Code: f.Kind.Rule().RPC, Message: f.Error(), Data: f.Describe()}
}

// endOf says why a context has ended.
func endOf(ctx context.Context) *fault.Error {
	var f *fault.Error
	if errors.As(context.Cause(ctx), &f) {
		return f
	}
	return fault.Of(fault.Cancelled, "", "the request was withdrawn")
}

// questionID is the head of the ids under which clients are asked. Theirs and those of
// upstreams are other ids; the name keeps people who read a trace from mixing them up.
const questionID = "agg-"

// appendQuestion appends a request to the client.
func appendQuestion(dst []byte, id int64, method string, params []byte) []byte {
	dst = appendQuestionID(append(dst, `{"jsonrpc":"2.0","id":`...), id)
	dst = wire.AppendQuote(append(dst, `,"method":`...), method)
	if len(params) > 0 {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

func appendQuestionID(dst []byte, id int64) []byte {
	return append(strconv.AppendInt(append(dst, `"`+questionID...), id, 10), '"')
}

// appendWithdrawal appends the notification that the answer is of no use any more.
func appendWithdrawal(dst []byte, id int64, why *fault.Error) []byte {
	params := appendQuestionID([]byte(`{"requestId":`), id)
	params = wire.AppendQuote(append(params, `,"reason":`...), why.Error())
	return wire.AppendNotification(dst, "notifications/cancelled", wire.Value{Raw: append(params, '}')})
}

// readQuestionID undoes appendQuestionID; false for the ids of others.
func readQuestionID(raw []byte) (int64, bool) {
	digits, ok := bytes.CutPrefix(raw, []byte(`"`+questionID))
	if !ok {
		return 0, false
	}
	digits, _ = bytes.CutSuffix(digits, []byte(`"`))
	id, err := strconv.ParseInt(string(digits), 10, 64)
	return id, err == nil
}

// questions are those that a session has to answer. Its session's lock guards it.
type questions struct {
	last int64
	open map[int64]*question // number of the id → question
	shut *fault.Error        // no more are asked; nil while they are
}

// pose notes a question and returns the number of its id.
func (sess *Session) pose(a *question) (int64, *fault.Error) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	k := &sess.questions
	switch {
	case k.shut != nil:
		return 0, k.shut
	case a.of != nil && a.of.answered:
		return 0, errAnswered
	case len(k.open) >= maxQuestions:
		return 0, errQuestions
	}
	if k.open == nil {
		k.open = map[int64]*question{}
	}
	k.last++
	k.open[k.last] = a
	if a.of != nil {
		a.of.asking.Add(1)
	}
	return k.last, nil
}

// settle forgets a question: an answer that comes later answers nothing.
func (sess *Session) settle(id int64, a *question) {
	sess.mu.Lock()
	delete(sess.questions.open, id)
	sess.mu.Unlock()
	if a.of != nil {
		a.of.asking.Done()
	}
}

// conclude lets upstreams ask nothing more in the name of a call that is about to be
// answered, withdraws what is open, and returns when nothing of it can come behind the
// reply.
func (sess *Session) conclude(q *request) {
	sess.mu.Lock()
	q.answered = true
	for _, a := range sess.questions.open {
		if a.of == q {
			a.cancel(errAnswered)
		}
	}
	sess.mu.Unlock()
	q.asking.Wait()
}

// silence ends all questions of the session and lets nobody ask any more.
func (sess *Session) silence(why *fault.Error) {
	sess.mu.Lock()
	defer sess.mu.Unlock()
	sess.silenceLocked(why)
}

func (sess *Session) silenceLocked(why *fault.Error) {
	if sess.questions.shut == nil {
		sess.questions.shut = why
	}
	for _, a := range sess.questions.open {
		a.cancel(why)
	}
}

// response takes the client's answer to a question. What answers nothing, or not for
// the first time, is dropped.
func (sess *Session) response(m *wire.Message) {
	sess.touch()
	id, ok := readQuestionID(m.ID.Of(m.Raw))
	if !ok {
		return
	}
	got := answer{result: bytes.Clone(m.Result.Of(m.Raw))}
	switch {
	case m.Error.OK():
		got.err = wire.ParseRPCError(bytes.Clone(m.Error.Of(m.Raw)))
	case got.result[0] != '{':
		got = answer{err: &wire.RPCError{Code: wire.CodeInternal, Message: "the client's answer is no object"}}
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if a := sess.questions.open[id]; a != nil {
		select {
		case a.answer <- got:
		default:
		}
	}
}
