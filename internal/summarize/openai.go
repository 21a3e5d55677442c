package summarize

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
)

// OpenAI is a model behind an OpenAI-compatible chat completions API.
type OpenAI struct {
	*remote
	renamed atomic.Bool // it wants max_completion_tokens in place of max_tokens
	bare    atomic.Bool // it does not know stream_options
}

// NewOpenAI returns a model behind POST {URL}/chat/completions. The default URL is
// https://api.openai.com/v1.
func NewOpenAI(r Remote) (*OpenAI, error) {
	header := http.Header{}
	if k := strings.TrimSpace(r.Key); k != "" {
		header.Set("Authorization", "Bearer "+k)
	}
	o, err := r.open("https://api.openai.com/v1", "chat/completions", header)
	if err != nil {
		return nil, err
	}
	return &OpenAI{remote: o}, nil
}

type chatRequest struct {
	Model               string         `json:"model"`
	Messages            []chatMessage  `json:"messages"`
	MaxTokens           int            `json:"max_tokens,omitempty"`
	MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
	Stream              bool           `json:"stream"`
	StreamOptions       *streamOptions `json:"stream_options,omitempty"`
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// request leaves out what models differ in, such as a temperature.
func (m *OpenAI) request(p Prompt) chatRequest {
	r := chatRequest{
		Model:    m.model,
		Messages: []chatMessage{{"system", p.System}, {"user", p.User}},
		Stream:   true,
	}
	if m.renamed.Load() {
		r.MaxCompletionTokens = p.MaxTokens
	} else {
		r.MaxTokens = p.MaxTokens
	}
	if !m.bare.Load() {
		r.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	return r
}

// adapt learns from a refusal, and reports whether there is something to be learnt:
// servers and models know one of two names for the limit, and some refuse the wish for
// a count of tokens.
func (m *OpenAI) adapt(e *Error) bool {
	switch e.param {
	case "max_tokens":
		return m.renamed.CompareAndSwap(false, true)
	case "stream_options", "include_usage":
		return m.bare.CompareAndSwap(false, true)
	}
	return false
}

// Summarize implements Model.
func (m *OpenAI) Summarize(ctx context.Context, p Prompt, chunk func(string)) (Answer, error) {
	d := newDraft(p, chunk)
	e := m.ask(ctx, m.request(p), chatAPI{}, d)
	for e != nil && m.adapt(e) { // at most as often as there are things to learn
		e = m.ask(ctx, m.request(p), chatAPI{}, d)
	}
	return m.end(d, e)
}

// end makes an answer of what has been collected.
func (o *remote) end(d *draft, e *Error) (Answer, error) {
	a := d.answer()
	a.Model = o.name
	if e != nil {
		return a, e
	}
	return a, nil
}

type chatAPI struct{}

// A chatChunk is a piece of an answer, or all of it.
type chatChunk struct {
	Choices []struct {
		Index        int     `json:"index"`
		Delta        chatSay `json:"delta"`
		Message      chatSay `json:"message"`
		FinishReason string  `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     count `json:"prompt_tokens"`
		Completion count `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatSay struct {
	Content pieces `json:"content"`
	Refusal string `json:"refusal"`
}

func (chatAPI) event(d *draft, data []byte) (done bool, said string, err error) {
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		d.finished = true // some servers give no other reason
		return true, "", nil
	}
	c, said, err := decodeChat(data)
	if said != "" || err != nil {
		return false, said, err
	}
	d.usage(c.Usage.Prompt, c.Usage.Completion)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		d.refusal = bounded(d.refusal+choice.Delta.Refusal, d.limit)
		if d.add(string(choice.Delta.Content)) {
			return true, "", nil
		}
		d.finish(choice.FinishReason)
	}
	return false, "", nil
}

func (chatAPI) whole(d *draft, body []byte) (said string, err error) {
	c, said, err := decodeChat(body)
	if said != "" || err != nil {
		return said, err
	}
	if len(c.Choices) == 0 {
		return "", errNoAnswer
	}
	d.usage(c.Usage.Prompt, c.Usage.Completion)
	d.refusal = c.Choices[0].Message.Refusal
	d.add(string(c.Choices[0].Message.Content))
	d.finish(c.Choices[0].FinishReason)
	return "", nil
}

func decodeChat(data []byte) (c chatChunk, said string, err error) {
	if err := json.Unmarshal(data, &c); err != nil {
		return c, "", err
	}
	return c, saidInstead(c.Error, data), nil
}
