package summarize

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A foreignError is what APIs say in place of an answer, in the forms that are around:
// {"error": {"message", "param"}}, {"error": "text"}, {"message"}, and FastAPI's
// {"detail": "text" or [{"msg", "loc"}]}.
type foreignError struct {
	Error   json.RawMessage `json:"error"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
}

// complaint returns the sentence in an error's body. Other members are left alone:
// some servers repeat the request in them.
func complaint(body []byte) string {
	var e foreignError
	if json.Unmarshal(body, &e) != nil {
		return plain(body)
	}
	var object struct {
		Message string `json:"message"`
		Msg     string `json:"msg"`
	}
	var list []struct {
		Msg string `json:"msg"`
		Loc []any  `json:"loc"`
	}
	for _, raw := range [][]byte{e.Error, e.Message, e.Detail} {
		var text string
		switch {
		case len(raw) == 0:
		case json.Unmarshal(raw, &text) == nil && text != "":
			return text
		case json.Unmarshal(raw, &object) == nil && object.Message != "":
			return object.Message
		case json.Unmarshal(raw, &list) == nil && len(list) > 0:
			return strings.TrimSpace(list[0].Msg + " " + fmt.Sprint(list[0].Loc...))
		}
	}
	return ""
}

// plain returns a body that is a short sentence. No part of a longer one is shown: it
// could be that of a secret.
func plain(body []byte) string {
	text := strings.TrimSpace(string(body))
	switch {
	case strings.HasPrefix(text, "<"):
		return "a web page"
	case len(text) > maxSaid || !utf8.ValidString(text):
		return ""
	}
	return text
}

// rejected returns the name of the member of our request that an error is about.
func rejected(body []byte) string {
	var e struct {
		Error struct {
			Param string `json:"param"`
		} `json:"error"`
		Detail []struct {
			Loc []any `json:"loc"`
		} `json:"detail"`
	}
	// What does not fit is left out; the rest is read all the same.
	_ = json.Unmarshal(body, &e)
	if e.Error.Param != "" {
		return e.Error.Param
	}
	for _, d := range e.Detail {
		if i := slices.Index(d.Loc, any("body")); i >= 0 && i+1 < len(d.Loc) {
			name, _ := d.Loc[i+1].(string)
			return name
		}
	}
	return ""
}

// maxSaid bounds what is shown of the words of others, in bytes.
const maxSaid = 300

// clean makes the words of others fit to be shown: no secrets, one line, short.
func (o *remote) clean(text string) string {
	if text == "" {
		return ""
	}
	// The longest first: one may be part of another.
	secrets := slices.SortedFunc(slices.Values(o.secrets), func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) >= 6 { // shorter ones are words
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	return short(text)
}

// short makes a text one line of printable characters, and short.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, bounded(text, maxSaid))
	return strings.Join(strings.Fields(text), " ")
}
