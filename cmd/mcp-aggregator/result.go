package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// result is what is printed of a tool's result. The bytes come from a server: a type
// this does not know is described by its name, and nothing in it is trusted.
type result struct {
	Content    []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

type block struct {
	Type     string   `json:"type"`
	Text     string   `json:"text"`
	Data     string   `json:"data"`
	MIMEType string   `json:"mimeType"`
	URI      string   `json:"uri"`
	Name     string   `json:"name"`
	Resource contents `json:"resource"`
}

type contents struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType"`
	Text     *string `json:"text"`
	Blob     string  `json:"blob"`
}

// printResult prints a result and turns isError into the exit code. The text of an
// error goes where errors go, so that a pipe carries results only.
func (c *cli) printResult(raw json.RawMessage, asJSON bool) error {
	var r result
	decodeErr := json.Unmarshal(raw, &r)
	w := c.out
	switch {
	case asJSON:
		fmt.Fprintf(w, "%s\n", raw)
	case decodeErr != nil: // not as the protocol has it: show what there is
		fmt.Fprintf(w, "%s\n", shown(w, string(raw)))
	default:
		if r.IsError {
			w = c.err
		}
		for _, line := range r.lines() {
			fmt.Fprintln(w, shown(w, line))
		}
	}
	if r.IsError {
		return &exit{code: exitToolError}
	}
	return nil
}

// shown is s as it may be written to w: unchanged, unless w is a terminal that s could steer.
func shown(w io.Writer, s string) string {
	if isTerminal(w) {
		return printable(s)
	}
	return s
}

// lines describes a result for people. Structured content is shown only where it is all
// there is, since servers repeat it as text.
func (r *result) lines() []string {
	var out []string
	for _, b := range r.Content {
		out = append(out, strings.TrimSuffix(b.line(), "\n"))
	}
	if len(out) == 0 && len(r.Structured) > 0 {
		out = append(out, string(r.Structured))
	}
	return out
}

func (b *block) line() string {
	switch b.Type {
	case "text":
		return b.Text
	case "image", "audio":
		return fmt.Sprintf("[%s: %s, %s]", b.Type, b.MIMEType, size(b.Data))
	case "resource_link":
		return fmt.Sprintf("[resource: %s <%s>]", b.Name, b.URI)
	case "resource":
		if b.Resource.Text != nil {
			return *b.Resource.Text
		}
		return fmt.Sprintf("[resource: %s, %s <%s>]", b.Resource.MIMEType, size(b.Resource.Blob), b.Resource.URI)
	}
	return fmt.Sprintf("[%s: use --json to see it]", b.Type)
}

// size describes how many bytes a base64 text stands for.
func size(data string) string {
	data = strings.TrimRight(data, "=")
	return count(base64.RawStdEncoding.DecodedLen(len(data)), "byte")
}

// eventLine describes a message that came during a call; it is empty for messages that
// are not for people.
func eventLine(method string, params []byte) string {
	switch method {
	case "notifications/progress":
		return progressLine(params)
	case "notifications/message":
		return logLine(params)
	}
	return ""
}

func progressLine(params []byte) string {
	var p struct {
		Progress json.Number `json:"progress"`
		Total    json.Number `json:"total"`
		Message  string      `json:"message"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	line := "progress: " + p.Progress.String()
	if p.Total != "" {
		line += " of " + p.Total.String()
	}
	if p.Message != "" {
		line += ", " + p.Message
	}
	return printable(line)
}

func logLine(params []byte) string {
	var p struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger"`
		Data   json.RawMessage `json:"data"`
	}
	if json.Unmarshal(params, &p) != nil {
		return ""
	}
	data := string(p.Data)
	var text string
	if json.Unmarshal(p.Data, &text) == nil {
		data = text
	}
	if p.Logger != "" {
		data = p.Logger + ": " + data
	}
	return printable(p.Level + ": " + data)
}
