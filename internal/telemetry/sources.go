package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources tell what is known elsewhere. They are asked at each scrape; a nil one is left out.
type Sources struct {
	Servers  func() []Server
	Breakers func() []Breaker
	Queues   func() []Queue
	Sessions func() int // client sessions that are open
	Parked   func() Parked
	Dropped  func() int64 // messages for clients that found a full queue
	Warnings func() int
	Kept     func() Kept
	Config   func() (generation int64, loaded time.Time)
}

// Server is what a scrape shows of one upstream server.
type Server struct {
	Name        string
	Up          bool  // connected
	Stale       bool  // its lists are those of an earlier connection
	Restarts    int64 // connections made after the first
	InFlight    int   // callers that use a connection
	Refs        int   // callers and sessions that hold one
	Connections int   // live ones
	Tools       int
	Skipped     int64 // messages of this connection that were none, or nobody's
	Asked       int64 // requests of the server to clients
	Refused     int64 // those of them that reached no client
}

// Parked is what a scrape shows of calls that wait for an answer of their clients.
type Parked struct {
	Calls   int   // that wait now
	Expired int64 // given up because the client did not come back
	Refused int64 // questions of servers refused because too many waited
}

// Breaker is the state of the circuit breaker of one tool.
type Breaker struct {
	Server, Tool string
	State        Circuit
}

// Circuit is the state of a circuit breaker as a number.
type Circuit uint8

// The states, with the values that mcp_circuit_state shows.
const (
	Closed Circuit = iota
	HalfOpen
	Open
)

// String names the state.
func (c Circuit) String() string {
	switch c {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half-open"
	}
	return "open"
}

// Queue is what a scrape shows of one queue.
type Queue struct {
	Name                    string
	Slots, Running, Waiting int
}

// sampled shows what Sources know at the moment.
type sampled struct{ Sources }

var (
	upstreamUp       = desc("mcp_upstream_up", "Whether a server is connected.", "server")
	upstreamStale    = desc("mcp_upstream_stale", "Whether the lists of a server are those of an earlier connection.", "server")
	upstreamRestarts = desc("mcp_upstream_restarts_total", "Connections to a server after its first.", "server")
	upstreamInFlight = desc("mcp_upstream_in_flight", "Calls that a server is working on.", "server")
	upstreamRefs     = desc("mcp_upstream_refs", "Callers and sessions that hold a connection.", "server")
	upstreamConns    = desc("mcp_upstream_connections", "Live connections to a server.", "server")
	upstreamTools    = desc("mcp_upstream_tools", "Tools that a server offers.", "server")
	upstreamSkipped  = desc("mcp_upstream_skipped_messages", "What a server sent on its connection that was no message, or nobody's.", "server")
	circuitState     = desc("mcp_circuit_state", "State of a circuit breaker: 0 closed, 1 half-open, 2 open.", "server", "tool")
	queueSlots       = desc("mcp_queue_slots", "Calls that may run in a queue at the same time.", "queue")
	queueRunning     = desc("mcp_queue_running", "Calls of a queue that run.", "queue")
	queueWaiting     = desc("mcp_queue_depth", "Calls that wait in a queue.", "queue")
	openSessions     = desc("mcp_sessions", "Client sessions that are open.")
	parkedCalls      = desc("mcp_parked_calls", "Calls that wait for an answer of their clients.")
	parkedExpired    = desc("mcp_parked_expired_total", "Calls given up because their clients did not come back.")
	parkedRefused    = desc("mcp_parked_refused_total", "Questions of servers refused because too many calls waited.")
	upstreamAsked    = desc("mcp_upstream_asked_total", "Requests of a server to clients.", "server")
	upstreamRefused  = desc("mcp_upstream_ask_refused_total", "Requests of a server that reached no client.", "server")
	dropped          = desc("mcp_messages_dropped_total", "Messages for clients that found a full queue.")
	keptEntries      = desc("mcp_kept_results", "Originals of large results that are kept.")
	keptBytes        = desc("mcp_kept_bytes", "Bytes of them, by where they are.", "where")
	keptSpilled      = desc("mcp_kept_spilled_total", "Originals moved from memory to disk.")
	keptExpired      = desc("mcp_kept_expired_total", "Originals dropped because their time was over.")
	keptLost         = desc("mcp_kept_lost_total", "Originals whose file could not be written or read.")
	warnings         = desc("mcp_warnings", "Warnings that stand at the moment.")
	generation       = desc("mcp_config_generation", "Number of the configuration and catalogue in use; each change of them makes the next.")
	loaded           = desc("mcp_config_loaded_timestamp_seconds", "When the configuration in use was read.")
)

// Describe implements prometheus.Collector.
func (sampled) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		upstreamUp, upstreamStale, upstreamRestarts, upstreamInFlight, upstreamRefs, upstreamConns, upstreamTools, upstreamSkipped, upstreamAsked, upstreamRefused,
		circuitState, queueSlots, queueRunning, queueWaiting, openSessions, parkedCalls, parkedExpired, parkedRefused, dropped, keptEntries, keptBytes, keptSpilled, keptExpired, keptLost, warnings, generation, loaded,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s sampled) Collect(ch chan<- prometheus.Metric) {
	if s.Servers != nil {
		for _, v := range unique(s.Servers(), func(v Server) string { return label(v.Name) }) {
			v.collect(ch)
		}
	}
	if s.Breakers != nil {
		for _, b := range unique(s.Breakers(), func(b Breaker) tool { return tool{label(b.Server), label(b.Tool)} }) {
			ch <- gauge(circuitState, float64(b.State), label(b.Server), label(b.Tool))
		}
	}
	if s.Queues != nil {
		for _, q := range unique(s.Queues(), func(q Queue) string { return label(q.Name) }) {
			ch <- gauge(queueSlots, float64(q.Slots), label(q.Name))
			ch <- gauge(queueRunning, float64(q.Running), label(q.Name))
			ch <- gauge(queueWaiting, float64(q.Waiting), label(q.Name))
		}
	}
	s.process(ch)
}

// process shows what there is one of.
func (s sampled) process(ch chan<- prometheus.Metric) {
	if s.Sessions != nil {
		ch <- gauge(openSessions, float64(s.Sessions()))
	}
	if s.Parked != nil {
		p := s.Parked()
		ch <- gauge(parkedCalls, float64(p.Calls))
		ch <- counter(parkedExpired, p.Expired)
		ch <- counter(parkedRefused, p.Refused)
	}
	if s.Dropped != nil {
		ch <- counter(dropped, s.Dropped())
	}
	if s.Kept != nil {
		k := s.Kept()
		ch <- gauge(keptEntries, float64(k.Entries))
		ch <- gauge(keptBytes, float64(k.MemoryBytes), "memory")
		ch <- gauge(keptBytes, float64(k.DiskBytes), "disk")
		ch <- counter(keptSpilled, k.Spilled)
		ch <- counter(keptExpired, k.Expired)
		ch <- counter(keptLost, k.Lost)
	}
	if s.Warnings != nil {
		ch <- gauge(warnings, float64(s.Warnings()))
	}
	if s.Config != nil {
		n, at := s.Config()
		ch <- gauge(generation, float64(n))
		ch <- gauge(loaded, seconds(at))
	}
}

func (v Server) collect(ch chan<- prometheus.Metric) {
	name := label(v.Name)
	ch <- gauge(upstreamUp, boolean(v.Up), name)
	ch <- gauge(upstreamStale, boolean(v.Stale), name)
	ch <- counter(upstreamRestarts, v.Restarts, name)
	ch <- gauge(upstreamInFlight, float64(v.InFlight), name)
	ch <- gauge(upstreamRefs, float64(v.Refs), name)
	ch <- gauge(upstreamConns, float64(v.Connections), name)
	ch <- gauge(upstreamTools, float64(v.Tools), name)
	ch <- gauge(upstreamSkipped, float64(v.Skipped), name)
	ch <- counter(upstreamAsked, v.Asked, name)
	ch <- counter(upstreamRefused, v.Refused, name)
}

// unique keeps the first of those that would make the same series, since one that is
// there twice fails the whole scrape, and at most maxTools.
func unique[T any, K comparable](all []T, key func(T) K) []T {
	seen := make(map[K]bool, len(all))
	var out []T
	for _, v := range all {
		if k := key(v); !seen[k] && len(out) < maxTools {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}
