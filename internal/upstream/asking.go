package upstream

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"mcp-aggregator/internal/fault"
)

// asking is what is known about the requests of a server to clients, over all its
// connections. A server that has once asked on a channel which several calls share,
// where nothing says for which of them, is marked: from then on the calls of clients
// that can be asked are kept apart (UP-8).
type asking struct {
	marked  atomic.Bool
	asked   atomic.Int64 // requests handed to a client's call
	refused atomic.Int64 // requests that reached no client, or whose call ended before the answer
	open    atomic.Int64 // bytes of the requests without a response

	news func()      // marked has become true; runs on a reader. nil: nobody wants to know
	told atomic.Bool // by news, for the owner: marked is to be kept

	shown shown // elicitations that sessions were shown on shared channels

	turn *semaphore.Weighted // of serialize

	mu    sync.Mutex
	taken map[string][]bool // principal → places of calls without a session that are taken
}

func newAsking(news func()) *asking {
	return &asking{news: news, turn: semaphore.NewWeighted(1)}
}

// mark notes that the server asks on shared channels.
func (a *asking) mark() {
	if !a.marked.Load() && a.marked.CompareAndSwap(false, true) && a.news != nil {
		a.told.Store(true)
		a.news()
	}
}

// An askingTransport carries requests of servers to clients.
type askingTransport interface{ questions() *asks }

// useApart lends a connection to a client that can be asked, of a server that asks.
func (o *owner) useApart(ctx context.Context, session, principal string, fn func(Conn) error) error {
	switch o.server().Asks {
	case "refuse":
		return o.useShared(ctx, fn)
	case "serialize":
		if err := o.takeTurn(ctx); err != nil {
			return err
		}
		defer o.asking.turn.Release(1)
		return o.useShared(ctx, fn)
	}
	if session == "" {
		place, ok := o.asking.takePlace(principal)
		if !ok {
			return fault.Of(fault.Overloaded, o.name, "%d calls of this caller have a connection of their own already, since the server may ask during each of them", maxPlaces)
		}
		defer o.asking.leavePlace(principal, place)
		session = placePrefix + strconv.Itoa(place) + placePrefix + principal
	}
	return o.dedicated.use(ctx, session, fn)
}

// takeTurn waits until no other client that can be asked uses the shared connection.
func (o *owner) takeTurn(ctx context.Context) error {
	if o.asking.turn.TryAcquire(1) {
		return nil
	}
	limit, cancel := context.WithTimeoutCause(ctx, o.opts.acquireTimeout(), errNoTurn)
	defer cancel()
	if o.asking.turn.Acquire(limit, 1) == nil {
		return nil
	}
	cause := context.Cause(limit)
	switch {
	case ctx.Err() == nil:
		e := fault.Of(fault.Overloaded, o.name, "its calls that can be asked run one at a time (asks: serialize), and the turn did not come within %v: %w", o.opts.acquireTimeout(), cause)
		return e
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Of(fault.Timeout, o.name, "timed out while another client's call was running (asks: serialize): %w", cause)
	}
	return fault.Of(fault.Cancelled, o.name, "cancelled while another client's call was running: %w", cause)
}

var errNoTurn = errors.New("waiting for a turn took too long")

// placePrefix begins the names under which calls without a session have connections;
// no session is called so.
const placePrefix = "\x00"

// maxPlaces bounds the connections that calls of one principal without a session have at
// the same time, so that nobody takes all there can be. Anonymous callers are many.
const maxPlaces = maxDedicated / 4

// takePlace gives a call without a session the lowest place of its principal that is
// free, and with it a connection that no other call uses meanwhile, and no other
// principal ever: a server may keep what it learns of its client with the connection.
// A client that calls once at a time finds the same one again, and there are no more
// connections than such calls at the same time. False: the principal has too many.
func (a *asking) takePlace(principal string) (place int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.taken[principal]
	free := slices.Index(taken, false)
	switch {
	case free >= 0:
	case principal != "" && len(taken) >= maxPlaces:
		return 0, false
	default:
		free = len(taken)
		taken = append(taken, false)
	}
	if a.taken == nil {
		a.taken = map[string][]bool{}
	}
	taken[free] = true
	a.taken[principal] = taken
	return free, true
}

// leavePlace gives a place back. A principal without any is forgotten: its next call
// has the lowest place, and so the same name, again.
func (a *asking) leavePlace(principal string, place int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.taken[principal]
	if taken[place] = false; !slices.Contains(taken, true) {
		delete(a.taken, principal)
	}
}

// keepMark makes what is kept of the server say that it asks. It runs on the owner's
// goroutine.
func (o *owner) keepMark() bool {
	if !o.asking.told.Swap(false) {
		return false
	}
	o.log.Info("server asks clients on a shared connection", "asks", o.server().Asks)
	return o.offers.noteAsks()
}

// Alone reports whether a connection serves one session, or one call, alone.
func Alone(c Conn) bool {
	t, ok := c.(askingTransport)
	return ok && t.questions().alone.Load()
}
