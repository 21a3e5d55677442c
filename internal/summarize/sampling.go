package summarize

import (
	"context"
	"encoding/json"
)

// Caller is the name of the calling client's own model.
const Caller = "sampling"

// Sampling is the calling client's own model (specification, client: Sampling).
type Sampling struct {
	// Ask asks the client: a method and its params as JSON, and the result as JSON. It
	// returns when ctx is done. The client may ask its user first.
	Ask func(ctx context.Context, method string, params []byte) (result []byte, err error)
}

// Name implements Model.
func (Sampling) Name() string { return Caller }

type samplingParams struct {
	Messages []samplingMessage `json:"messages"`
	System   string            `json:"systemPrompt"`
	// A client that chooses takes a small and quick model for this.
	Preferences map[string]float64 `json:"modelPreferences"`
	MaxTokens   int                `json:"maxTokens"`
}

type samplingMessage struct {
	Role    string       `json:"role"`
	Content samplingText `json:"content"`
}

type samplingText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type samplingResult struct {
	Content    pieces `json:"content"` // one block, or several since 2025-11-25
	StopReason string `json:"stopReason"`
}

// Summarize implements Model.
func (s Sampling) Summarize(ctx context.Context, p Prompt, chunk func(string)) (Answer, error) {
	params, err := json.Marshal(samplingParams{
		Messages:    []samplingMessage{{"user", samplingText{"text", p.User}}},
		System:      p.System,
		Preferences: map[string]float64{"speedPriority": 0.8, "costPriority": 0.6, "intelligencePriority": 0.4},
		MaxTokens:   p.MaxTokens,
	})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	result, err := s.Ask(ctx, "sampling/createMessage", params)
	switch {
	case ctx.Err() != nil:
		return Answer{Model: Caller}, stopped(ctx, Caller)
	case err != nil:
		return Answer{Model: Caller}, &Error{Outcome: Failed, Model: Caller, Reason: "the client wrote no summary: " + short(err.Error())}
	}
	return readSampling(p, result, chunk)
}

// readSampling reads what the client says.
func readSampling(p Prompt, result []byte, chunk func(string)) (Answer, error) {
	var r samplingResult
	if len(result) > maxAnswer || json.Unmarshal(result, &r) != nil {
		return Answer{Model: Caller}, &Error{Outcome: Failed, Model: Caller, Reason: "the client's answer is no result of sampling", Spent: true}
	}
	d := newDraft(p, chunk)
	d.add(string(r.Content))
	d.finish(r.StopReason)
	a := d.answer()
	a.Model = Caller
	return a, nil
}
