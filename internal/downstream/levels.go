package downstream

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcp-aggregator/internal/bridge"
)

// levelKept is how long a log level that a modern request has named counts as wanted.
const levelKept = 10 * time.Minute

// levelsHeard are the log levels that modern requests have named lately. A request says
// by itself what it wants to hear, but servers of the legacy era must have been told
// before: of the first request that names a level they may still withhold messages.
type levelsHeard struct {
	last [8]atomic.Int64 // index of the level → when it was last named, Unix nanoseconds; 0 if too long ago
	mu   sync.Mutex      // orders what the router is told
}

// wantLevel notes that a modern request names a level.
func (s *Server) wantLevel(level string) {
	i := slices.Index(bridge.Levels, level)
	if i < 0 {
		return
	}
	if s.levels.last[i].Swap(time.Now().UnixNano()) == 0 {
		s.levels.mu.Lock()
		defer s.levels.mu.Unlock()
		s.router.SetLevel(levelKey(level), level)
	}
}

// forgetLevels takes back the levels that nobody has named for a while.
func (s *Server) forgetLevels(now time.Time) {
	s.levels.mu.Lock()
	defer s.levels.mu.Unlock()
	for i := range s.levels.last {
		at := &s.levels.last[i]
		if last := at.Load(); last != 0 && now.UnixNano()-last > int64(levelKept) && at.CompareAndSwap(last, 0) {
			s.router.SetLevel(levelKey(bridge.Levels[i]), "")
		}
	}
}

// levelKey stands for all modern clients where sessions have their ids.
func levelKey(level string) string { return "level-" + level }
