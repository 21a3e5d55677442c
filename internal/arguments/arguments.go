// Package arguments turns what people and models write as the arguments of a tool into
// the JSON object the protocol wants. A model that was asked for an object often sends a
// string instead, and a person at a shell writes key=value; both are understood.
//
// The readings are tried in a fixed order and the first that fits is taken:
//
//   - nothing: {}
//   - a JSON object: itself, byte for byte
//   - other JSON: {"input": value}
//   - YAML that holds lists or nested maps, or is written in braces: the map
//   - "key: value" or "key=value" pairs: an object of coerced values
//   - anything else: {"input": text}
//
// Keys stay in the order they were written, and numbers keep their digits.
package arguments

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// How says which reading a text was given. A caller shows it when the result surprises.
type How uint8

const (
	Empty  How = iota // nothing was written
	Object            // a JSON object, used as it is
	JSON              // another JSON value, wrapped
	YAML              // YAML with structure
	Pairs             // key: value or key=value
	Text              // plain text, wrapped
)

// String returns the name of a reading, for messages.
func (h How) String() string {
	return [...]string{"empty", "JSON object", "JSON value", "YAML", "pairs", "text"}[h]
}

// inputKey is the key that values without a key of their own are given.
const inputKey = `{"input":`

// Parse reads text as the arguments of a tool. The result is always a valid JSON object
// in UTF-8; bytes that are not UTF-8 are replaced by U+FFFD.
//
// yamlToJSON converts one YAML document to JSON, keeping the order of keys and the
// digits of numbers; it must fail on what it cannot represent. It is a parameter because
// the YAML reader belongs to the configuration. If it is nil, no text is read as YAML,
// and neither is one over 1 MiB.
func Parse(text string, yamlToJSON func([]byte) ([]byte, error)) (json.RawMessage, How) {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if text == "" {
		return json.RawMessage(`{}`), Empty
	}
	if json.Valid([]byte(text)) {
		if text[0] == '{' {
			return json.RawMessage(text), Object
		}
		return wrap(text), JSON
	}
	if out, ok := structured(text, yamlToJSON); ok {
		return out, YAML
	}
	if ps, ok := splitPairs(text); ok {
		return object(ps), Pairs
	}
	return wrap(string(quote(text))), Text
}

// Words reads the words that follow a command at a shell. Words of the form key=value
// each are one argument, whose value may hold commas and line breaks because the shell
// has split them already; everything else is joined with spaces and read by [Parse].
func Words(words []string, yamlToJSON func([]byte) ([]byte, error)) (json.RawMessage, How) {
	out, how := Parse(strings.Join(words, " "), yamlToJSON)
	// One word that Parse understands has been understood in full; of several, Parse
	// has not seen where they end.
	if how == Object || how == JSON || how == Empty || (len(words) == 1 && how != Text) {
		return out, how
	}
	var ps []pair
	for _, w := range words {
		p, ok := assignment(strings.ToValidUTF8(w, "\uFFFD"))
		if !ok {
			return out, how
		}
		ps = append(ps, p)
	}
	return object(ps), Pairs
}

// maxYAML is the longest text that is read as YAML, in bytes. YAML readers are slow, and
// what is longer was hardly written by hand.
const maxYAML = 1 << 20

// wrap gives a JSON value the key it lacks.
func wrap(value string) json.RawMessage { return json.RawMessage(inputKey + value + "}") }

// structured reads text as YAML if the result has a structure that pairs cannot express.
// A flat map is left to the pairs, whose coercion knows None and keeps yes a word.
func structured(text string, yamlToJSON func([]byte) ([]byte, error)) (json.RawMessage, bool) {
	if yamlToJSON == nil || len(text) > maxYAML {
		return nil, false
	}
	out, err := yamlToJSON([]byte(text))
	if err != nil || !utf8.Valid(out) {
		return nil, false
	}
	out = bytes.TrimSpace(out)
	var members map[string]json.RawMessage
	if json.Unmarshal(out, &members) != nil || members == nil { // invalid, or not an object
		return nil, false
	}
	if text[0] == '{' {
		return out, true
	}
	for _, v := range members {
		if v[0] == '[' || v[0] == '{' {
			return out, true
		}
	}
	return nil, false
}
