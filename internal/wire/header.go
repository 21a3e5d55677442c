package wire

import (
	"encoding/base64"
	"strings"
)

const (
	headerOpen  = "=?base64?"
	headerClose = "?="
)

// EncodeHeader writes a value for an Mcp-Name or Mcp-Param header: as it is when it
// is plain ASCII without blanks at its ends, else as Base64 between markers
// (specification 2026-07-28, streamable-http: Value Encoding).
func EncodeHeader(v string) string {
	plain := v == strings.Trim(v, " \t") && !(strings.HasPrefix(v, headerOpen) && strings.HasSuffix(v, headerClose))
	for i := 0; plain && i < len(v); i++ {
		plain = v[i] >= 0x20 && v[i] < 0x7f || v[i] == '\t'
	}
	if plain {
		return v
	}
	return headerOpen + base64.StdEncoding.EncodeToString([]byte(v)) + headerClose
}
