package mcptest

import (
	"context"
	"encoding/json"
	"strings"
)

// A stream is a channel on which the server may speak first: the pipes, a GET
// stream, or a subscriptions/listen request.
type stream struct {
	send         func(msg []byte) error
	subscription json.RawMessage // id of the listen request; nil for the others
	filter       json.RawMessage // what that request asked for
}

func (r *Raw) open(s *stream) (closed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams == nil {
		r.streams = make(map[*stream]bool)
	}
	r.streams[s] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.streams, s)
	}
}

// Streams returns the number of channels on which Notify would speak.
func (r *Raw) Streams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.streams)
}

// Notify sends a notification on every open channel, marked with the
// subscription where there is one. It returns how many it reached.
func (r *Raw) Notify(method, params string) int {
	r.mu.Lock()
	streams := make([]*stream, 0, len(r.streams))
	for s := range r.streams {
		streams = append(streams, s)
	}
	r.mu.Unlock()
	n := 0
	for _, s := range streams {
		if s.subscription == nil || s.wants(method) {
			if s.send(notification(method, withSubscription(params, s.subscription))) == nil {
				n++
			}
		}
	}
	return n
}

// wants reports whether the listen request asked for such a notification.
func (s *stream) wants(method string) bool {
	switch kind, event, _ := strings.Cut(strings.TrimPrefix(method, "notifications/"), "/"); event {
	case "list_changed":
		return string(Field(s.filter, kind+"ListChanged")) == "true"
	case "updated":
		return Field(s.filter, "resourceSubscriptions") != nil
	}
	return false
}

func notification(method, params string) []byte {
	if params == "" {
		return []byte(`{"jsonrpc":"2.0","method":` + Quote(method) + `}`)
	}
	return []byte(`{"jsonrpc":"2.0","method":` + Quote(method) + `,"params":` + params + `}`)
}

func withSubscription(params string, id json.RawMessage) string {
	if id == nil {
		return params
	}
	if params == "" {
		params = "{}"
	}
	meta := Field([]byte(params), "_meta")
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	return Put(params, "_meta", Put(string(meta), metaSubID, string(id)))
}

// listen serves a subscriptions/listen request until its context ends.
func (r *Raw) listen(ctx context.Context, q *Request, send func([]byte) error) error {
	s := &stream{send: send, subscription: q.ID, filter: Field(q.Params, "notifications")}
	ack := `{"notifications":` + string(s.filter) + `}`
	if err := send(notification("notifications/subscriptions/acknowledged", withSubscription(ack, q.ID))); err != nil {
		return err
	}
	defer r.open(s)()
	<-ctx.Done()
	return context.Cause(ctx)
}
