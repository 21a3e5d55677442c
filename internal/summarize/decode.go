package summarize

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// errNoAnswer is the error for JSON without what makes an answer.
var errNoAnswer = errors.New("no answer of this API")

// saidInstead returns the complaint of a message that has an error member. Some
// servers send one that is null with each piece.
func saidInstead(member json.RawMessage, data []byte) string {
	if len(member) == 0 || string(member) == "null" {
		return ""
	}
	if said := complaint(data); said != "" {
		return said
	}
	return "without a message"
}

// A count is a number of tokens. Anything else than a sensible number counts as
// unknown, since a missing count is no reason to lose an answer.
type count int

const maxCount = 1 << 30

// UnmarshalJSON never fails.
func (c *count) UnmarshalJSON(b []byte) error {
	*c = 0
	if f, err := strconv.ParseFloat(string(b), 64); err == nil && f > 0 && f <= maxCount {
		*c = count(f)
	}
	return nil
}

// usage notes the tokens that a model counts, as far as it does.
func (d *draft) usage(in, out count) {
	if in > 0 {
		d.In = int(in)
	}
	if out > 0 {
		d.Out = int(out)
	}
}

// pieces is text that comes as a string or as a list of content blocks, of which those
// of text count; null is none.
type pieces string

// UnmarshalJSON implements json.Unmarshaler.
func (p *pieces) UnmarshalJSON(b []byte) error {
	*p = ""
	if len(b) > 0 && b[0] == '{' {
		b = []byte("[" + string(b) + "]")
	}
	if len(b) == 0 || b[0] != '[' {
		var s string // stays empty for null
		err := json.Unmarshal(b, &s)
		*p = pieces(s)
		return err
	}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &blocks); err != nil {
		return err
	}
	var text strings.Builder
	for _, block := range blocks {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	*p = pieces(text.String())
	return nil
}
