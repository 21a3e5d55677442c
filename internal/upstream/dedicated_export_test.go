package upstream

import (
	"context"

	"mcp-aggregator/internal/config"
)

// NewProcessSet is NewSet for peers that are taken for processes.
func NewProcessSet(opts Options, dial Dial) *Set {
	open := func(ctx context.Context, s *config.Server, o *Options, notice func(Notice)) (transport, error) {
		t, err := dial.open(ctx, s, o, notice)
		if err != nil {
			return nil, err
		}
		return fakeProcess{t.(*mux)}, nil
	}
	return newSet(opts, func(config.Type) opener { return open })
}

type fakeProcess struct{ *mux }

func (fakeProcess) pid() int { return 1 }

func (fakeProcess) stderrTail() []string { return nil }

// MaxDedicated is the limit of connections for single sessions and calls.
const MaxDedicated = maxDedicated

// MaxPlaces is the limit of those of one principal without a session.
const MaxPlaces = maxPlaces

// MaxShown is how many elicitations of a server are known by who was shown them.
const MaxShown = maxShown
