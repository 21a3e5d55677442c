package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"time"

	"mcp-aggregator/internal/fault"
)

// restartDelays are the pauses before the attempts that follow a loss or a failed
// start; the last one repeats for ever.
var restartDelays = [...]time.Duration{
	0, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

const (
	// stableAfter is how long a connection must have lived for its loss to count as
	// a new trouble and not as more of the old one.
	stableAfter = time.Minute
	// slowProbe is the least pause after failures that repeating cannot mend.
	slowProbe = time.Minute
	// patience is how far away the attempt after a loss may be for callers to wait
	// for it.
	patience = 2 * time.Second
	// longestRetryAfter bounds the pause that a server may ask for.
	longestRetryAfter = 10 * time.Minute
)

// backoff chooses the pauses between attempts. The zero value is the state after a
// first connection.
type backoff struct {
	step  int  // index into restartDelays of the next pause
	start bool // no connection has followed yet
}

// newStart is the state before an attempt that is not the consequence of a loss.
func newStart() backoff { return backoff{step: 1, start: true} }

// connected notes that an attempt has worked.
func (b *backoff) connected() {
	if b.start {
		*b = backoff{}
	}
}

// lost notes that a connection has ended that lived for up.
func (b *backoff) lost(up time.Duration) {
	if up >= stableAfter {
		b.step = 0
	}
}

// forward notes that a pause was cut short because the server is wanted: those of the
// attempts that follow do not grow by it.
func (b *backoff) forward() { b.step = max(b.step-1, 1) }

// next returns the pause after a loss or a failed attempt.
func (b *backoff) next(err error) time.Duration {
	delay := restartDelays[min(b.step, len(restartDelays)-1)]
	b.step++
	if hopeless(err) {
		return slowProbe + rand.N(slowProbe/5)
	}
	if delay > 0 {
		delay += rand.N(delay*2/5) - delay/5
	}
	var f *fault.Error
	if errors.As(err, &f) && f.RetryAfter > delay {
		delay = min(f.RetryAfter, longestRetryAfter)
	}
	return delay
}

// hopeless reports whether an attempt failed for a reason that only people mend:
// credentials, a missing command or file, a certificate, a defect. Trying often
// would only burden the server or the machine.
func hopeless(err error) bool {
	var f *fault.Error
	if errors.As(err, &f) && (f.Kind == fault.Unauthorized || f.Kind == fault.Denied || f.Kind == fault.Internal) {
		return true
	}
	for _, target := range []error{exec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission} {
		if errors.Is(err, target) {
			return true
		}
	}
	var untrusted *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	return errors.As(err, &untrusted) || errors.As(err, &authority)
}
