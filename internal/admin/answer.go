package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"mcp-aggregator/internal/config"
	"mcp-aggregator/internal/fault"
)

// Error is the body of an answer that is no success, under the key "error".
type Error struct {
	Code     string   `json:"code"` // a word for programs
	Message  string   `json:"message"`
	Problems []string `json:"problems,omitempty"` // of a configuration, each with its place

	Status int `json:"-"`
}

func (e *Error) Error() string { return e.Message }

// codes are the words for statuses that nothing more precise is known about.
var codes = map[int]string{
	http.StatusBadRequest:            "bad_request",
	http.StatusUnauthorized:          "unauthorized",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "not_found",
	http.StatusMethodNotAllowed:      "method_not_allowed",
	http.StatusConflict:              "conflict",
	http.StatusRequestEntityTooLarge: "too_large",
	http.StatusTooManyRequests:       "too_many",
	http.StatusInternalServerError:   "internal",
	http.StatusServiceUnavailable:    "unavailable",
}

func problem(status int, format string, args ...any) *Error {
	return &Error{Status: status, Code: codes[status], Message: fmt.Sprintf(format, args...)}
}

var (
	errNoToken  = problem(http.StatusUnauthorized, "this needs the token of the configuration (admin.token), sent as Authorization: Bearer")
	errIndirect = problem(http.StatusForbidden, "without admin.token only programs of this machine are served, by a loopback name and not through a proxy")
	errForeign  = problem(http.StatusForbidden, "without admin.token only programs of the aggregator's own user may change something")
	errAbsent   = problem(http.StatusNotFound, "this aggregator has nothing of the kind")
)

// answerOf classifies the error of an action.
func answerOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if ps, ok := errors.AsType[*config.Problems](err); ok {
		texts := make([]string, len(*ps))
		for i, p := range *ps {
			texts[i] = p.String()
		}
		return configurationError(texts)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem(http.StatusRequestEntityTooLarge, "the body is too large")
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return ofFault(f)
	}
	switch {
	case errors.Is(err, ErrConflict):
		return problem(http.StatusConflict, "%v", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusServiceUnavailable, "%v", err)
	}
	return problem(http.StatusInternalServerError, "%v", err)
}

// configurationError is the answer to a configuration that cannot be used.
func configurationError(problems []string) *Error {
	return &Error{
		Status: http.StatusBadRequest, Code: "configuration", Problems: problems,
		Message: "the configuration cannot be used; nothing was changed",
	}
}

func ofFault(f *fault.Error) *Error {
	e := problem(f.Kind.Rule().HTTP, "%v", f)
	if codes[e.Status] == "" { // a status of calls
		e.Status = http.StatusServiceUnavailable
	}
	if e.Code = f.Kind.String(); f.Code != "" {
		e.Code = f.Code
	}
	return e
}

// fail answers with an error.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := *answerOf(err)
	e.Message, e.Problems = s.Mask(e.Message), slices.Clone(e.Problems)
	for i, p := range e.Problems {
		e.Problems[i] = s.Mask(p)
	}
	switch e.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="mcp-aggregator"`)
	case http.StatusInternalServerError:
		s.Log.Error("admin request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	s.write(w, e.Status, map[string]*Error{"error": &e})
}

// answer writes a value as JSON.
func (s *server) answer(w http.ResponseWriter, v any) error {
	s.write(w, http.StatusOK, v)
	return nil
}

func (s *server) write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the reader has gone, which concerns nobody else
}

// readBody reads a body of at most limit bytes.
func readBody(r *http.Request, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); err != nil && !tooLarge {
		return nil, problem(http.StatusBadRequest, "reading the body: %v", err)
	}
	return body, err
}
