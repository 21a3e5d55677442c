package upstream

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/fault"
	"mcp-aggregator/internal/wire"
)

// A prober asks from time to time whether the server at the other end of a connection
// is still there (UP-11). It is owned by run; only the question itself is asked by a
// goroutine of serve.
//
// Two rules keep a server alive that works. Any answer is a good one, be it an error.
// And one that does not come in time means nothing while calls succeed, or are in
// flight and none has failed since the last success: the server is busy.
type prober struct {
	o       *owner
	l       *liveConn
	timer   *time.Timer
	results chan error // buffered 1: one question is asked at a time

	asking bool
	asked  time.Time // when the last question was asked
	ended  time.Time // and was over
	due    time.Time // when the next one is
	alive  time.Time // last good answer
	fails  int       // in a row
	pinged bool      // the server has answered the first question of its kind
}

const (
	// unwellPause is the time between probes of a server that does not answer.
	unwellPause = time.Second
	// unwellTimeout bounds them: the sooner a server is known to be gone, the sooner
	// it can be connected again.
	unwellTimeout = 3 * time.Second
)

func newProber(o *owner, l *liveConn) *prober {
	p := &prober{o: o, l: l, timer: time.NewTimer(time.Hour), results: make(chan error, 1), alive: l.since, ended: l.since.Add(-unwellPause)}
	p.timer.Stop()
	p.due = l.since.Add(jitter(p.interval()))
	return p
}

func (p *prober) end() { p.timer.Stop() }

func (p *prober) interval() time.Duration {
	return cmp.Or(p.o.server().Probe.Interval, 15*time.Second)
}

// start asks if it is time to, and sets the timer if it is not. Calls that failed on
// a connection that has no channel of its own to break (HTTP) make it time.
func (p *prober) start(ctx context.Context, work *sync.WaitGroup) {
	if p.asking || p.o.server().Probe.Method == "none" {
		return
	}
	if _, remote := p.l.conn.(sessionTransport); p.doubted() && remote {
		p.due = p.earlier(p.ended.Add(unwellPause))
	}
	p.due = p.earlier(p.ended.Add(p.interval() * 6 / 5)) // it may have become shorter
	if left := time.Until(p.due); left > 0 {
		p.timer.Reset(left)
		return
	}
	ask := p.question()
	p.o.glance(p.l)
	p.asking, p.asked = true, time.Now()
	limit := cmp.Or(p.o.server().Probe.Timeout, 5*time.Second)
	if p.fails > 0 || p.l.ill {
		limit = min(limit, unwellTimeout)
	}
	p.o.spawn(work, "probing", func() error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		p.results <- p.o.guard("probing", func() error { return ask(ctx) })
		return nil
	})
}

// doubted notes that calls have failed since it was asked last.
func (p *prober) doubted() bool {
	if !p.l.suspect.Load() {
		return false
	}
	p.l.suspect.Store(false)
	p.l.ill = true
	return true
}

func (p *prober) earlier(t time.Time) time.Time {
	if t.Before(p.due) {
		return t
	}
	return p.due
}

// take notes the outcome of a question. The error it returns means that the
// connection is lost.
func (p *prober) take(err error) error {
	p.asking, p.ended = false, time.Now()
	p.due = p.ended.Add(jitter(p.interval()))
	p.o.glance(p.l)
	p.doubted()
	if isClosed(p.l.conn.Done()) {
		return nil // and the owner is about to learn why
	}
	switch kind := fault.KindOf(err); {
	case err == nil, kind == fault.RateLimited, kind == fault.Rejected:
		if p.fails > 0 {
			p.o.log.Info("server answers again")
			p.o.muteToPing = !p.pinged
		}
		if away := p.l.away.Swap(false); away || p.fails > 0 {
			p.o.recovered()
		}
		p.l.ill = false
		p.fails, p.alive, p.pinged = 0, p.ended, true
		return nil
	case !p.l.lastWorked.Before(p.asked), kind == fault.Timeout && p.busy():
		p.o.log.Debug("server busy", "err", p.o.plain(err))
		p.fails = 0
		return nil
	}
	p.fails++
	p.o.log.Debug("server does not answer", "err", p.o.plain(err), "attempt", p.fails)
	if p.fails < cmp.Or(p.o.server().Probe.Failures, 2) {
		p.due = p.ended.Add(unwellPause)
		return nil
	}
	if fault.KindOf(err) == fault.Unauthorized {
		return err
	}
	return &fault.Error{Kind: fault.KindOf(err), Server: p.o.name, Err: err,
		Reason: fmt.Sprintf("the server does not answer any more (asked %d times): %s", p.fails, reasonOf(err))}
}

// busy reports whether calls in flight explain that a question was not answered in
// time. On one channel for everything they do as long as the oldest can be in flight,
// even if others have timed out behind it.
func (p *prober) busy() bool {
	if p.l.users() == 0 {
		return false
	}
	if !p.l.ill {
		return true
	}
	_, remote := p.l.conn.(sessionTransport)
	sign := p.alive
	if p.l.lastWorked.After(sign) {
		sign = p.l.lastWorked
	}
	return !remote && time.Since(sign) <= longest(p.o.server())
}

// question is what the server is asked. A ping where the revision
// has it, else the first page of a list, else for its revisions. Servers exist that
// never answer a ping; one that has not yet is asked for a list before it is given up.
func (p *prober) question() func(context.Context) error {
	s, conn := p.o.server(), p.l.conn
	modern := conn.Info().Era == wire.Modern
	list := firstList(p.l.caps)
	mute := p.o.muteToPing || p.fails > 0 && !p.pinged && s.Probe.Method != "ping"
	params := wire.Value{}
	method := "ping"
	switch {
	case modern:
		method = cmp.Or(list, "server/discover")
		params = modernParams(p.o.opts, "")
	case list != "" && (mute || s.Probe.Method == "list_tools"):
		method = list
	}
	return func(ctx context.Context) error {
		reply, err := conn.Call(ctx, &Request{ID: NextID(), Method: method, Params: params})
		reply.Release()
		return err
	}
}

// firstList is the method of a list that the server has, of tools if possible.
func firstList(c capabilities) string {
	for kind, offered := range c.offers {
		if offered {
			return catalog.Kind(kind).Method()
		}
	}
	return ""
}
