package app

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"mcp-aggregator/internal/catalog"
)

// holdsSecret reports whether lists contain one of some secrets, as they are or in any
// way in which JSON can write them.
func holdsSecret(k *catalog.Kept, secrets []string) bool {
	if len(secrets) == 0 {
		return false
	}
	raw := slices.Concat(k.Tools, k.Prompts, k.Resources, k.Templates, [][]byte{k.Capabilities, k.ServerInfo, []byte(k.Version)})
	return mentions(k.Instructions, secrets) || slices.ContainsFunc(raw, func(def []byte) bool { return tells(def, secrets) })
}

// tells looks into one JSON value. Its strings are decoded only if some are escaped: by
// encoders that write < as \u003c, or everything that is not ASCII like that.
func tells(def []byte, secrets []string) bool {
	if mentions(string(def), secrets) {
		return true
	}
	if bytes.IndexByte(def, '\\') < 0 {
		return false
	}
	tokens := json.NewDecoder(bytes.NewReader(def))
	tokens.UseNumber()
	for {
		token, err := tokens.Token()
		if err != nil {
			return err != io.EOF // what cannot be read cannot be cleared
		}
		if text, ok := token.(string); ok && mentions(text, secrets) {
			return true
		}
	}
}

func mentions(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) })
}
