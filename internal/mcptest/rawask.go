package mcptest

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
)

// An Ask sends a request to the client and waits for its response.
type Ask func(method, params string) (*Request, error)

// asking runs the script of an answer that asks the client, and completes the answer.
func (r *Raw) asking(ctx context.Context, q *Request, a *Answer, send func([]byte) error) error {
	if a.Asking == nil {
		return nil
	}
	result := a.Asking(func(method, params string) (*Request, error) {
		if a.Aside {
			return r.ask(ctx, method, params, r.aside)
		}
		return r.ask(ctx, method, params, send)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if result != "" {
		a.Whole = string(resultMessage(q.ID, decorate(q, result)))
	}
	return nil
}

func (r *Raw) ask(ctx context.Context, method, params string, send func([]byte) error) (*Request, error) {
	answered := make(chan *Request, 1)
	r.mu.Lock()
	r.lastAsk++
	id := Quote("ask-" + strconv.Itoa(r.lastAsk))
	if r.asked == nil {
		r.asked = map[string]chan *Request{}
	}
	r.asked[id] = answered
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.asked, id)
	}()
	if err := send(request(id, method, params)); err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		return a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// aside sends a message on one of the channels that belong to no request.
func (r *Raw) aside(msg []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.streams {
		if s.subscription == nil {
			return s.send(msg)
		}
	}
	return errors.New("no stream is open")
}

// answeredLocked hands a response of the client to whoever asked.
func (r *Raw) answeredLocked(q *Request) {
	if c := r.asked[string(q.ID)]; q.Method == "" && c != nil {
		select {
		case c <- q:
		default:
		}
	}
}

func request(id, method, params string) []byte {
	msg := `{"jsonrpc":"2.0","id":` + id + `,"method":` + Quote(method)
	if params != "" {
		msg += `,"params":` + string(json.RawMessage(params))
	}
	return []byte(msg + "}")
}

// Ask sends a request to the client on one of the channels that belong to no request,
// and waits for the response.
func (r *Raw) Ask(ctx context.Context, method, params string) (*Request, error) {
	return r.ask(ctx, method, params, r.aside)
}
