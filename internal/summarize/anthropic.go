package summarize

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// Anthropic is a model behind Anthropic's messages API.
type Anthropic struct{ *remote }

// NewAnthropic returns a model behind POST {URL}/messages. The default URL is
// https://api.anthropic.com/v1.
func NewAnthropic(r Remote) (*Anthropic, error) {
	header := http.Header{}
	if k := strings.TrimSpace(r.Key); k != "" {
		header.Set("X-Api-Key", k)
	}
	o, err := r.open("https://api.anthropic.com/v1", "messages", header)
	if err != nil {
		return nil, err
	}
	if o.header.Get("Anthropic-Version") == "" {
		o.header.Set("Anthropic-Version", "2023-06-01")
	}
	return &Anthropic{o}, nil
}

type messagesRequest struct {
	Model     string        `json:"model"`
	System    string        `json:"system"`
	Messages  []chatMessage `json:"messages"`
	MaxTokens int           `json:"max_tokens"`
	Stream    bool          `json:"stream"`
}

// Summarize implements Model.
func (m *Anthropic) Summarize(ctx context.Context, p Prompt, chunk func(string)) (Answer, error) {
	d := newDraft(p, chunk)
	request := messagesRequest{
		Model: m.model, System: p.System, MaxTokens: p.MaxTokens, Stream: true,
		Messages: []chatMessage{{"user", p.User}},
	}
	return m.end(d, m.ask(ctx, request, messagesAPI{}, d))
}

type messagesAPI struct{}

// A messagesEvent is an event of a stream, or an answer as a whole, which has the
// members of message itself.
type messagesEvent struct {
	Type    string `json:"type"`
	Message struct {
		Usage messagesUsage `json:"usage"`
	} `json:"message"`
	Start struct {
		Text string `json:"text"`
	} `json:"content_block"`
	Delta struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage      messagesUsage   `json:"usage"`
	Content    pieces          `json:"content"`
	StopReason string          `json:"stop_reason"`
	Error      json.RawMessage `json:"error"`
}

// A messagesUsage counts input in three parts, by what the vendor's cache had of it.
type messagesUsage struct {
	In      count `json:"input_tokens"`
	Written count `json:"cache_creation_input_tokens"`
	Read    count `json:"cache_read_input_tokens"`
	Out     count `json:"output_tokens"`
}

func (d *draft) messagesUsage(u messagesUsage) { d.usage(u.In+u.Written+u.Read, u.Out) }

func (messagesAPI) event(d *draft, data []byte) (done bool, said string, err error) {
	ev, said, err := decodeMessages(data)
	if said != "" || err != nil {
		return false, said, err
	}
	switch ev.Type {
	case "message_start":
		d.messagesUsage(ev.Message.Usage)
	case "content_block_start":
		return d.add(ev.Start.Text), "", nil
	case "content_block_delta":
		if ev.Delta.Type == "text_delta" { // others are thinking
			return d.add(ev.Delta.Text), "", nil
		}
	case "message_delta":
		d.messagesUsage(ev.Usage)
		d.finish(ev.Delta.StopReason)
	case "message_stop":
		d.finished = true
		return true, "", nil
	}
	return false, "", nil // pings, and what is to come: unknown events are to be skipped
}

func (messagesAPI) whole(d *draft, body []byte) (said string, err error) {
	ev, said, err := decodeMessages(body)
	if said != "" || err != nil {
		return said, err
	}
	if ev.Type != "message" {
		return "", errNoAnswer
	}
	d.messagesUsage(ev.Usage)
	d.add(string(ev.Content))
	d.finish(ev.StopReason)
	return "", nil
}

func decodeMessages(data []byte) (ev messagesEvent, said string, err error) {
	if err := json.Unmarshal(data, &ev); err != nil {
		return ev, "", err
	}
	return ev, saidInstead(ev.Error, data), nil
}
