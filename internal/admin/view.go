package admin

import (
	"encoding/json"
	"time"

	"mcp-aggregator/internal/catalog"
	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/upstream"
)

// Info is what the aggregator says about itself.
type Info struct {
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	Commit     string        `json:"commit,omitempty"`
	Started    time.Time     `json:"started"`
	Config     string        `json:"config"`           // path of the file
	Source     string        `json:"source,omitempty"` // what the servers in force come from: file, or runtime
	Generation int64         `json:"generation"`       // grows by each change of configuration or catalogue
	Loaded     time.Time     `json:"loaded"`           // when that was
	Servers    int           `json:"servers"`
	Sessions   int           `json:"sessions"`
	Saved      int64         `json:"tokens_saved"` // that clients were spared, as estimated
	Limits     config.Limits `json:"-"`
}

// Plan is what a reload did or, with errors, would not do.
type Plan struct {
	Generation int64    `json:"generation"`
	Applied    bool     `json:"applied"`
	Added      []string `json:"added"`
	Removed    []string `json:"removed"`
	Changed    []string `json:"changed"`            // connected anew
	Adopted    []string `json:"adopted,omitempty"`  // changed without losing their connection
	Settings   []string `json:"settings,omitempty"` // changed besides the servers
	Restart    []string `json:"restart,omitempty"`  // changed in the file, but in force only after a restart
	Errors     []string `json:"errors"`
}

// Server is how one server is.
type Server struct {
	Name      string    `json:"name"`
	Type      string    `json:"type"`
	State     string    `json:"state"`
	Phase     string    `json:"phase,omitempty"`
	Since     time.Time `json:"since"`
	LastError string    `json:"last_error,omitempty"`
	Attempt   int       `json:"attempt,omitempty"`
	Next      time.Time `json:"next_attempt,omitzero"`

	Era        string          `json:"era,omitempty"`
	Protocol   string          `json:"protocol,omitempty"`
	ServerInfo json.RawMessage `json:"server_info,omitempty"`

	Tools     int      `json:"tools"`
	Prompts   int      `json:"prompts"`
	Resources int      `json:"resources"`
	Templates int      `json:"templates"`
	Stale     bool     `json:"stale,omitempty"`
	Degraded  []string `json:"degraded,omitempty"` // lists that could not be read, and why

	Sharing     string `json:"sharing,omitempty"`
	Refs        int    `json:"refs"`
	InFlight    int    `json:"in_flight"`
	Connections int    `json:"connections"`
	Restarts    int64  `json:"restarts"`
	PID         int    `json:"pid,omitempty"`
	Lazy        bool   `json:"lazy,omitempty"`
	Idle        bool   `json:"idle,omitempty"`
	Skipped     int64  `json:"skipped,omitempty"`
	Asked       int64  `json:"asked,omitempty"`       // requests of the server to clients
	Refused     int64  `json:"ask_refused,omitempty"` // those of them that reached no client
	Asks        bool   `json:"asks,omitempty"`        // it asks on shared connections

	Problems []Problem      `json:"problems,omitempty"` // definitions that were rejected or changed
	Settings map[string]any `json:"settings,omitempty"` // as configured, without secrets; only for one server
}

// Tool is one tool as clients see it, or one that they do not see and why.
type Tool struct {
	Name        string `json:"name"`
	Server      string `json:"server"`
	Own         string `json:"own"` // the server's own name of it
	Description string `json:"description,omitempty"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	Destructive bool   `json:"destructive,omitempty"`
	Stale       bool   `json:"stale,omitempty"` // of an earlier connection
}

// Tools are all of them, and the definitions that something is wrong with.
type Tools struct {
	Tools    []Tool    `json:"tools"`
	Problems []Problem `json:"problems"`
}

// Problem is something about one definition of a server that a person should know.
type Problem struct {
	Server   string `json:"server"`
	Kind     string `json:"kind"` // tool, prompt, resource, resource template
	Name     string `json:"name"`
	Reason   string `json:"reason"`
	Severity string `json:"severity"` // rejected, disabled, warning or mapped
}

// Rejected reports whether clients do not get the definition.
func (p Problem) Rejected() bool { return p.Severity == catalog.Rejected.String() }

func problemOf(p catalog.Problem) Problem {
	return Problem{p.Server, p.Kind.String(), p.Name, p.Reason, p.Severity.String()}
}

// Target names what an action is about.
type Target struct {
	Server string `json:"server"`
	Tool   string `json:"tool,omitempty"`
}

// viewOf shows a status. What a server says about itself is left out if it is no JSON.
func viewOf(s *upstream.Status) Server {
	v := Server{
		Name: s.Server, Type: s.Type, State: s.State, Phase: s.Phase, Since: s.Since,
		LastError: s.LastError, Attempt: s.Attempt, Next: s.NextAttempt,
		Era: s.Era, Protocol: s.Version,
		Tools: s.Tools, Prompts: s.Prompts, Resources: s.Resources, Templates: s.Templates,
		Stale: s.Stale, Degraded: s.Degraded,
		Sharing: s.Sharing, Refs: s.Refs, InFlight: s.InFlight, Connections: s.Connections, Restarts: s.Restarts,
		PID: s.PID, Lazy: s.Lazy, Idle: s.Idle, Skipped: s.Skipped, Asked: s.Asked, Refused: s.Refused, Asks: s.Asks,
	}
	for _, p := range s.Problems {
		v.Problems = append(v.Problems, problemOf(p))
	}
	if len(s.ServerInfo) <= maxServerInfo && json.Valid(s.ServerInfo) {
		v.ServerInfo = s.ServerInfo
	}
	return v
}

// maxServerInfo bounds what a server may say about itself in a list, in bytes: icons
// can be megabytes.
const maxServerInfo = 8 << 10
