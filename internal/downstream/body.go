package downstream

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// progressBytes is how much of a body must arrive within limits.body_idle. Counting
// single bytes would let a client hold a connection by sending one now and then.
const progressBytes = 1 << 10

// readBody reads the body of a request into a buffer of the pool. The time limits
// are those of slow clients; they end with the body.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*buffer, *refusal) {
	limit := s.cfg.Limits.Body
	if r.ContentLength > int64(limit) {
		return nil, s.tooLarge()
	}
	buf := getBuffer(int(max(r.ContentLength, 0)))
	err := s.fill(w, r, buf, limit)
	switch {
	case err == nil:
		return buf, nil
	case errors.Is(err, errBodyTooLarge):
		err := s.tooLarge()
		buf.free()
		return nil, err
	case errors.Is(err, os.ErrDeadlineExceeded):
		buf.free()
		return nil, &refusal{status: http.StatusRequestTimeout, err: invalidRequest("the body of the request did not arrive in time"), close: true}
	}
	buf.free()
	return nil, &refusal{status: http.StatusBadRequest, err: invalidRequest("the body of the request could not be read"), close: true}
}

var errBodyTooLarge = errors.New("body too large")

func (s *Server) tooLarge() *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, err: invalidRequest("the body of the request exceeds limits.body"), close: true}
}

// fill reads the body until it ends.
func (s *Server) fill(w http.ResponseWriter, r *http.Request, buf *buffer, limit int) error {
	l := &s.cfg.Limits
	rc := http.NewResponseController(w)
	began := time.Now()
	_ = rc.SetReadDeadline(began.Add(min(l.BodyIdle, l.BodyTotal)))
	b, mark := buf.bytes, 0
	defer func() { buf.bytes = b }()
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case len(b) > limit:
			return errBodyTooLarge
		case err == io.EOF:
			_ = rc.SetReadDeadline(time.Time{})
			return nil
		case err != nil:
			return err
		}
		if len(b)-mark >= progressBytes {
			mark = len(b)
			now := time.Now()
			_ = rc.SetReadDeadline(now.Add(min(l.BodyIdle, l.BodyTotal-now.Sub(began))))
		}
	}
}
