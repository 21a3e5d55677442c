package admin_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-aggregator/internal/admin"
	"mcp-aggregator/internal/telemetry"
)

// stream reads events until the stream ends; times and ids are shortened.
type stream struct {
	t    *testing.T
	body *bufio.Reader
	base int64
	stop context.CancelFunc
}

// open asks for events. Edits change the request.
func open(t *testing.T, h http.Handler, base int64, query string, edits ...func(*http.Request)) *stream {
	t.Helper()
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, "GET", "http://localhost"+api+"/events"+query, nil)
	for _, edit := range edits {
		edit(req)
	}
	go func() {
		h.ServeHTTP(&piped{httptest.NewRecorder(), w}, req)
		w.Close()
	}()
	t.Cleanup(func() { cancel(); r.Close() })
	return &stream{t, bufio.NewReader(r), base, cancel}
}

// piped is a response whose body can be read while it is written.
type piped struct {
	*httptest.ResponseRecorder
	w *io.PipeWriter
}

func (p *piped) Write(b []byte) (int, error)        { return p.w.Write(b) }
func (p *piped) SetWriteDeadline(t time.Time) error { return nil }

var timeOfEvent = regexp.MustCompile(`,"time":"[^"]*"`)

// next returns the next event or comment without its time, ids counted from base; "" at the end.
func (s *stream) next() string {
	var lines []string
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			return ""
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		lines = append(lines, line)
	}
	text := timeOfEvent.ReplaceAllString(strings.Join(lines, " "), "")
	return regexp.MustCompile(`\d{10,}`).ReplaceAllStringFunc(text, func(id string) string {
		var n int64
		fmt.Sscan(id, &n)
		return fmt.Sprint(n - s.base)
	})
}

func (s *stream) want(all ...string) {
	s.t.Helper()
	for _, want := range all {
		if got := s.next(); got != want {
			s.t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func eventsHandler() (*telemetry.Events, int64, admin.Options) {
	o := options(new([]string))
	o.Events = telemetry.NewEvents()
	base := o.Events.Last() + 1
	o.Events.Append(telemetry.ServerState, "a", map[string]string{"to": "connected"})
	o.Events.Append(telemetry.ServerState, "b", nil)
	return o.Events, base, o
}

const (
	zero = `id: 0 event: server.state data: {"id":0,"type":"server.state","server":"a","data":{"to":"connected"}}`
	one  = `id: 1 event: server.state data: {"id":1,"type":"server.state","server":"b"}`
	two  = `id: 2 event: reload data: {"id":2,"type":"reload"}`
)

func TestEventsBeginWhereTheReaderStopped(t *testing.T) {
	for _, tt := range []struct {
		name  string
		query func(base int64) string
		last  func(base int64) string
		want  []string
	}{
		{"a new reader", nil, nil, []string{two}},
		{"all that is kept", func(int64) string { return "?since=0" }, nil, []string{zero, one, two}},
		{"behind the first", func(b int64) string { return fmt.Sprintf("?since=%d", b) }, nil, []string{one, two}},
		{"by header", nil, func(b int64) string { return fmt.Sprint(b) }, []string{one, two}},
		{"header over query", func(int64) string { return "?since=0" }, func(b int64) string { return fmt.Sprint(b) }, []string{one, two}},
		{"of an earlier run", func(b int64) string { return "?since=5" }, nil, []string{"event: missed data: {}", zero, one, two}},
	} {
		synctest.Test(t, func(t *testing.T) {
			events, base, o := eventsHandler()
			query, edits := "", []func(*http.Request){}
			if tt.query != nil {
				query = tt.query(base)
			}
			if tt.last != nil {
				edits = append(edits, header("Last-Event-ID", tt.last(base)))
			}
			s := open(t, admin.New(o), base, query, edits...)
			s.want(": open")
			time.AfterFunc(time.Second, func() { events.Append(telemetry.Reloaded, "", nil) })
			s.want(tt.want...)
			if t.Failed() {
				t.Log(tt.name)
			}
			s.stop()
			synctest.Wait()
		})
	}
}

func TestAnIdleEventStreamIsKeptOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, base, o := eventsHandler()
		s := open(t, admin.New(o), base, "")
		s.want(": open", ": still here", ": still here")
		s.stop()
		synctest.Wait()
	})
}

func TestEventStreamsEndWithTheAggregator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, base, o := eventsHandler()
		stopping := make(chan struct{})
		o.Stopping = stopping
		s := open(t, admin.New(o), base, "?since=0")
		s.want(": open", zero, one)
		close(stopping)
		s.want("")
	})
}

func TestReadersOfEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, base, o := eventsHandler()
		h := admin.New(o)
		var streams []*stream
		for range 64 {
			s := open(t, h, base, "")
			s.want(": open")
			streams = append(streams, s)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ends := func(r *http.Request) { *r = *r.WithContext(soon) }
		if got := send(t, h, "GET "+api+"/events", "", ends); got.Code != 429 || got.code != "too_many" {
			t.Errorf("%d %s", got.Code, got.Body)
		}
		streams[0].stop()
		synctest.Wait()
		s := open(t, h, base, "")
		s.want(": open")
		for _, s := range append(streams, s) {
			s.stop()
		}
		synctest.Wait()
	})
}

func TestAnEventThatIsNoJSONIsStillTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(new([]string))
		o.Events = telemetry.NewEvents()
		base := o.Events.Last() + 1
		o.Events.Append(telemetry.Reloaded, "", func() {})
		s := open(t, admin.New(o), base, "?since=0")
		s.want(": open", `id: 0 event: reload data: {"id":0,"type":"reload"}`)
		s.stop()
		synctest.Wait()
	})
}

func TestAReaderChoosesTypesOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events, base, o := eventsHandler()
		h := admin.New(o)
		type call struct {
			Call int64  `json:"call"`
			Kind string `json:"kind,omitempty"`
		}
		events.Append(telemetry.CallStarted, "a", call{Call: 7})
		events.Append(telemetry.SummaryStarted, "a", call{Call: 7})
		events.Append(telemetry.CallCompleted, "a", call{7, "ok"})
		const (
			started   = `id: 2 event: call.started data: {"id":2,"type":"call.started","server":"a","data":{"call":7}}`
			summary   = `id: 3 event: summary.started data: {"id":3,"type":"summary.started","server":"a","data":{"call":7}}`
			completed = `id: 4 event: call.completed data: {"id":4,"type":"call.completed","server":"a","data":{"call":7,"kind":"ok"}}`
		)
		for _, tt := range []struct {
			name, query string
			last        int64
			want        []string
		}{
			{"all", "", base, []string{one, started, summary, completed}},
			{"calls", "?types=call", base, []string{started, completed}},
			{"calls and summaries behind the first", "?types=call,summary", base + 2, []string{summary, completed}},
			{"by full names, the parameter twice", "?types=server.state&types=call.completed", base, []string{one, completed}},
			{"an empty list is all", "?types=", base + 3, []string{completed}},
		} {
			s := open(t, h, base, tt.query, header("Last-Event-ID", fmt.Sprint(tt.last)))
			s.want(": open")
			s.want(tt.want...)
			if t.Failed() {
				t.Fatal(tt.name)
			}
			s.stop()
		}
		s := open(t, h, base, "?types=reload&since=0")
		s.want(": open")
		for range 5000 { // none of them is this reader's, so it misses nothing
			events.Append(telemetry.CallStarted, "a", nil)
		}
		synctest.Wait()
		events.Append(telemetry.Reloaded, "", nil)
		s.want(`id: 5005 event: reload data: {"id":5005,"type":"reload"}`)
		s.stop()
		synctest.Wait()
	})
}

func TestUnknownTypesOfEventsAreRefused(t *testing.T) {
	_, _, o := eventsHandler()
	for _, types := range []string{"calls", "call,nonsense", "call.", "ca", strings.Repeat("x", 1000)} {
		got := send(t, admin.New(o), "GET "+api+"/events?types="+types, "")
		if got.Code != 400 || got.code != "bad_request" || !strings.Contains(got.Body.String(), "server, breaker, reload, tool, warning, call, summary") || got.Body.Len() > 1000 {
			t.Errorf("%.20s: %d %s", types, got.Code, got.Body)
		}
	}
}
