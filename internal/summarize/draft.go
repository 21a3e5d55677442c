package summarize

import (
	"strings"
	"unicode"
)

// A draft collects what a model says while it says it.
type draft struct {
	Answer
	chunk    func(string)
	limit    int    // bytes of text beyond which reading is of no use
	finished bool   // the model says that it has ended, and why
	refusal  string // what it says instead of an answer

	text  strings.Builder
	state speech
	held  string // not yet known what it is: the begin of the text, or of the end of thinking
}

// speech is what a model is doing. Some servers let a model's thinking stand in front
// of its answer, between tags.
type speech uint8

const (
	starting speech = iota
	thinking
	speaking
)

const (
	thinkBegin = "<think>"
	thinkEnd   = "</think>"
)

func newDraft(p Prompt, chunk func(string)) *draft {
	// No tokenizer makes tokens this long on average, so what is beyond would be cut.
	return &draft{chunk: chunk, limit: max(4<<10, 16*p.MaxTokens)}
}

// add takes the next piece of text. It reports whether there is more than will be used.
func (d *draft) add(s string) (full bool) {
	if s == "" {
		return false
	}
	if d.state != speaking {
		d.held += s
		s = d.begin()
	}
	d.say(s)
	if d.text.Len() <= d.limit {
		return false
	}
	d.Incomplete = true
	return true
}

// begin returns what has been held back and turns out to be said.
func (d *draft) begin() string {
	if d.state == starting {
		d.held = strings.TrimLeftFunc(d.held, unicode.IsSpace)
		switch {
		case strings.HasPrefix(d.held, thinkBegin):
			d.state = thinking
		case strings.HasPrefix(thinkBegin, d.held):
			return ""
		default:
			return d.speak(d.held)
		}
	}
	if _, said, ended := strings.Cut(d.held, thinkEnd); ended {
		return d.speak(said)
	}
	d.held = d.held[max(0, len(d.held)-len(thinkEnd)):]
	return ""
}

func (d *draft) speak(said string) string {
	d.state, d.held = speaking, ""
	return said
}

func (d *draft) say(s string) {
	if s == "" {
		return
	}
	d.text.WriteString(s)
	d.chunk(s)
}

// finish notes why the model has ended.
func (d *draft) finish(reason string) {
	switch reason {
	case "":
		return
	case "length", "max_tokens", "maxTokens", "model_context_window_exceeded":
		d.Incomplete = true
	case "refusal", "content_filter":
		d.Refused = true
	}
	d.finished = true
}

// answer is what has been said.
func (d *draft) answer() Answer {
	if d.state == starting {
		d.say(d.speak(d.held)) // a text shorter than the tag, and like its begin
	}
	d.Text = d.text.String()
	if d.refusal != "" {
		d.Refused = true
		if strings.TrimSpace(d.Text) == "" {
			d.Text = bounded(d.refusal, d.limit)
		}
	}
	return d.Answer
}
