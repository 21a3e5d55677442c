package limit

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A Budget bounds how many calls are repeated, so that a server in trouble does not
// get a multiple of its usual load at the worst moment: at most a share of the calls
// of the last ten seconds. Few calls may always be repeated at the same time, or a
// server with little traffic would never see one.
type Budget struct {
	mu       sync.Mutex                          // held while accounts is replaced
	accounts atomic.Pointer[map[string]*account] // server name → its account; replaced whole
}

// alwaysAtOnce is how many calls may be repeated at the same time in any case.
const alwaysAtOnce = 3

// NewBudget returns a budget without calls.
func NewBudget() *Budget {
	b := new(Budget)
	b.accounts.Store(new(map[string]*account))
	return b
}

// Called counts a call of a server.
func (b *Budget) Called(server string, now time.Time) { b.account(server).at(now).calls.Add(1) }

// Repeat asks to repeat a call of a server when percent of the calls may be. It
// returns what is to be called when the repetition has ended; nil means no.
func (b *Budget) Repeat(server string, now time.Time, percent int) (done func()) {
	a := b.account(server)
	running := a.running.Add(1)
	calls, repeated := a.sum(now)
	if running > alwaysAtOnce && (repeated+1)*100 > calls*int64(percent) {
		a.running.Add(-1)
		return nil
	}
	a.at(now).repeated.Add(1)
	return func() { a.running.Add(-1) }
}

// Keep forgets all servers but these.
func (b *Budget) Keep(server func(name string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := maps.Clone(*b.accounts.Load())
	maps.DeleteFunc(next, func(name string, _ *account) bool { return !server(name) })
	b.accounts.Store(&next)
}

func (b *Budget) account(server string) *account {
	if a := (*b.accounts.Load())[server]; a != nil {
		return a
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old := *b.accounts.Load()
	if a := old[server]; a != nil {
		return a
	}
	next := make(map[string]*account, len(old)+1)
	maps.Copy(next, old)
	a := new(account)
	next[server] = a
	b.accounts.Store(&next)
	return a
}

// window is the number of seconds that count.
const window = 10

// An account holds what was called in each of the last seconds.
type account struct {
	running atomic.Int64 // repetitions that have not ended
	mu      sync.Mutex   // held while a second takes the place of an older one
	seconds [window]second
}

type second struct {
	number          atomic.Int64 // since 1970
	calls, repeated atomic.Int64
}

// at returns the counts of the second.
func (a *account) at(now time.Time) *second {
	number := now.Unix()
	s := &a.seconds[uint64(number)%window]
	if s.number.Load() != number {
		a.mu.Lock()
		defer a.mu.Unlock()
		if s.number.Load() != number {
			s.calls.Store(0)
			s.repeated.Store(0)
			s.number.Store(number)
		}
	}
	return s
}

// sum adds up the seconds of the window.
func (a *account) sum(now time.Time) (calls, repeated int64) {
	for i := range a.seconds {
		if s := &a.seconds[i]; now.Unix()-s.number.Load() < window {
			calls += s.calls.Load()
			repeated += s.repeated.Load()
		}
	}
	return calls, repeated
}
