package admin

import (
	"fmt"
	"io"
	"net/http"

	"mcp-aggregator/internal/telemetry"
)

// Check is one condition of being ready.
type Check struct {
	Name    string // a word, such as servers
	OK      bool
	Message string // what is amiss, or how things are
}

// Health is the answer of /healthz.
type Health struct {
	Status   string              `json:"status"` // ok, or degraded with warnings
	Count    int                 `json:"warning_count"`
	Warnings []telemetry.Warning `json:"warnings,omitempty"`
}

// live says that the process serves; it is wrong to ask for more, since whoever asks
// would kill it.
func (s *server) live(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n")
	return nil
}

// ready says whether clients should be sent here.
func (s *server) ready(w http.ResponseWriter, r *http.Request) error {
	checks := s.checks()
	status, word := http.StatusOK, "ok"
	for _, c := range checks {
		if !c.OK {
			status, word = http.StatusServiceUnavailable, "not ready"
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	if r.URL.Query().Has("verbose") {
		for _, c := range checks {
			fmt.Fprintln(w, s.line(c, s.mayKnow(r)))
		}
	}
	fmt.Fprintln(w, word)
	return nil
}

func (s *server) checks() []Check {
	if s.Actions.Ready == nil {
		return nil
	}
	return s.Actions.Ready()
}

// line shows a check as Kubernetes does.
func (s *server) line(c Check, details bool) string {
	sign, word := "[+]", " ok"
	if !c.OK {
		sign, word = "[-]", " failed"
	}
	if details && c.Message != "" {
		word += ": " + s.Mask(c.Message)
	}
	return sign + c.Name + word
}

// health says how things are. Warnings are no reason to send clients elsewhere, so the
// status is always 200.
func (s *server) health(w http.ResponseWriter, r *http.Request) error {
	h := Health{Status: "ok"}
	if s.Warnings != nil {
		h.Warnings = s.Warnings.List()
	}
	if h.Count = len(h.Warnings); h.Count > 0 {
		h.Status = "degraded"
	}
	if !s.mayKnow(r) {
		h.Warnings = nil
	}
	return s.answer(w, h)
}

// mayKnow reports whether a health check may be answered with names and reasons.
func (s *server) mayKnow(r *http.Request) bool {
	return s.admit(r) == nil && (s.Token != "" || !s.Options.Health)
}
