package config

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// keyBytes is the length of a key: that of AES-256.
const keyBytes = 32

// SealKey returns the 32 bytes of state_key; nil if there is none.
func (c *Config) SealKey() []byte {
	key, _ := decodeKey(c.StateKey)
	return key
}

// decodeKey reads a key as hex or as base64 of either alphabet, padded or not. The two
// cannot be confused: 32 bytes have 64 digits in hex and at most 44 in base64.
func decodeKey(text string) ([]byte, bool) {
	key, err := hex.DecodeString(text)
	if err != nil || len(key) != keyBytes {
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		key, err = base64.RawStdEncoding.DecodeString(text)
	}
	if err != nil || len(key) != keyBytes {
		return nil, false
	}
	return key, true
}
