package config_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"testing"
)

func TestTheStateKeyIsReadInAnyForm(t *testing.T) {
	key := bytes.Repeat([]byte{0xfb, 0xff}, 16) // - and _, or + and /, in base64
	for _, text := range []string{
		hex.EncodeToString(key), base64.StdEncoding.EncodeToString(key), base64.RawStdEncoding.EncodeToString(key),
		base64.URLEncoding.EncodeToString(key), base64.RawURLEncoding.EncodeToString(key),
	} {
		c := parse(t, "{servers: {a: {builtin: notes}}, state_key: '"+text+"'}", env)
		if !bytes.Equal(c.SealKey(), key) {
			t.Errorf("%s is %x", text, c.SealKey())
		}
		if !slices.Contains(c.Secrets(), text) {
			t.Errorf("%s is not a secret", text)
		}
	}
	if c := parse(t, "servers: {a: {builtin: notes}}", env); c.SealKey() != nil {
		t.Error("there is a key where none was given")
	}
}
