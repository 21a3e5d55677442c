package summarize

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Model writes summaries.
type Model interface {
	// Name is the model's name in the configuration. It is bounded and no secret:
	// circuits and metrics are named by it.
	Name() string

	// Summarize asks once. It returns soon after ctx is done. Pieces of the text go
	// to chunk as they come; text that the Answer holds is what counts. The error is
	// an *Error; what comes with it in the Answer is what the attempt has cost.
	Summarize(ctx context.Context, p Prompt, chunk func(string)) (Answer, error)
}

// An Answer is a summary.
type Answer struct {
	Text       string
	Model      string // name of the model that wrote it
	In, Out    int    // tokens as the model counts them, else estimated
	Incomplete bool   // it was stopped by a limit of the model, or cut at one of ours
	Refused    bool   // the model says that it will not do it
}

// An Outcome says how asking for a summary ended. It is a closed set.
type Outcome string

// The outcomes.
const (
	OK        Outcome = "ok"
	Cached    Outcome = "cached"    // from the cache, or an equal request that was running: it has cost nothing
	Timeout   Outcome = "timeout"   // there was no complete answer in time
	Empty     Outcome = "empty"     // an answer without text
	Failed    Outcome = "error"     // an error, or something that is no answer
	Budget    Outcome = "budget"    // it would cost more tokens than there are left in this minute
	Busy      Outcome = "busy"      // as many summaries are being written as may be
	Open      Outcome = "open"      // the model failed before and rests
	Cancelled Outcome = "cancelled" // the caller went away
)

// Outcomes lists the outcomes.
func Outcomes() []Outcome {
	return []Outcome{OK, Cached, Timeout, Empty, Failed, Budget, Busy, Open, Cancelled}
}

// An Error says why a model wrote no summary. It holds no secrets and, of what the
// other side said, only a short sentence.
type Error struct {
	Outcome    Outcome
	Model      string // name of the model; "" if it is none's fault
	Reason     string
	RetryAfter time.Duration // when the model wants to be asked again; 0 if it did not say
	Away       bool          // the model could not be reached
	Spent      bool          // the attempt may have cost tokens

	param string // the member of our request that the model's server complains about
}

func (e *Error) Error() string {
	if e.Model == "" {
		return e.Reason
	}
	return fmt.Sprintf("model %q: %s", e.Model, e.Reason)
}

// stopped is the error of an attempt whose ctx is done.
func stopped(ctx context.Context, model string) *Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Outcome: Timeout, Model: model, Reason: "there was no complete answer in time", Spent: true}
	}
	return &Error{Outcome: Cancelled, Model: model, Reason: "nobody waits for the summary any more", Spent: true}
}

// asError makes an *Error of what a Model returned.
func asError(ctx context.Context, model string, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case ctx.Err() != nil:
		return stopped(ctx, model)
	}
	return &Error{Outcome: Failed, Model: model, Reason: short(err.Error()), Spent: true}
}
