package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-aggregator/internal/telemetry"
)

// events streams what happens as server-sent events. It begins behind the event that
// the reader names as its last, with what is still kept; without one it begins now. With
// types=call,server.state it is about some types only. A reader that takes nothing loses
// its stream, not its place.
func (s *server) events(w http.ResponseWriter, r *http.Request) error {
	if s.Events == nil {
		return errAbsent
	}
	last, err := s.lastSeen(r)
	if err != nil {
		return err
	}
	types, err := typesOf(r)
	if err != nil {
		return err
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return problem(http.StatusTooManyRequests, "%d readers of events are connected already", maxStreams)
	}
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s.stream(r.Context(), &eventWriter{w: w, c: http.NewResponseController(w)}, last, types)
	return nil
}

// typesOf is what types of events a reader wants; none means all.
func typesOf(r *http.Request) (types []string, err error) {
	known := telemetry.EventTypes()
	for _, list := range r.URL.Query()["types"] {
		for t := range strings.SplitSeq(list, ",") {
			switch {
			case t == "" || slices.Contains(types, t):
			case slices.Contains(known, t):
				types = append(types, t)
			default:
				return nil, problem(http.StatusBadRequest, "there are no events of the type %.40q; the types are %s", t, strings.Join(known, ", "))
			}
		}
	}
	return types, nil
}

// lastSeen is the id of the last event that a reader has.
func (s *server) lastSeen(r *http.Request) (int64, error) {
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		id = r.URL.Query().Get("since")
	}
	if id == "" {
		return s.Events.Last(), nil
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || n < 0 {
		return 0, problem(http.StatusBadRequest, "the id of an event is a number")
	}
	return n, nil
}

// stream writes events until ctx ends or the reader has gone.
func (s *server) stream(ctx context.Context, w *eventWriter, last int64, types []string) {
	if w.comment("open") != nil {
		return
	}
	idle := time.NewTicker(heartbeat)
	defer idle.Stop()
	for {
		newest := s.Events.Last()
		events, missed, more := s.Events.Since(last, types...)
		if missed || len(events) > 0 {
			if w.events(events, missed) != nil {
				return
			}
		}
		last = newest // what is of other types is behind the reader, too
		if n := len(events); n > 0 {
			last = max(newest, events[n-1].ID)
			continue
		}
		select {
		case <-more:
		case <-idle.C:
			if w.comment("still here") != nil {
				return
			}
		case <-s.Stopping:
			return
		case <-ctx.Done():
			return
		}
	}
}

// eventWriter writes a stream to a reader that may be slow, but not for ever.
type eventWriter struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func (w *eventWriter) comment(text string) error {
	return w.flush([]byte(": " + text + "\n\n"))
}

// events writes some events. Missed is told first, so that readers can fetch how
// things are.
func (w *eventWriter) events(events []telemetry.Event, missed bool) error {
	var out []byte
	if missed {
		out = append(out, "event: missed\ndata: {}\n\n"...)
	}
	for _, ev := range events {
		data, err := json.Marshal(ev)
		if err != nil { // of data that is no JSON; the event itself is still told
			ev.Data = nil
			data, _ = json.Marshal(ev)
		}
		out = fmt.Appendf(out, "id: %d\nevent: %s\ndata: %s\n\n", ev.ID, ev.Type, data)
	}
	return w.flush(out)
}

func (w *eventWriter) flush(p []byte) error {
	_ = w.c.SetWriteDeadline(time.Now().Add(writeWait)) // test recorders have none
	if _, err := w.w.Write(p); err != nil {
		return err
	}
	return w.c.Flush()
}
