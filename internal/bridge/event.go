package bridge

import (
	"slices"

	"mcp-aggregator/internal/wire"
)

// Levels are the logging levels from the most to the least verbose (RFC 5424).
var Levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LogWanted reports whether a log message of an upstream is for a client that asked
// for level. A modern client that asked for nothing must get nothing; a legacy one
// that never set a level leaves the choice to the server.
func LogWanted(client wire.Era, level string, params []byte) bool {
	if level == "" {
		return client == wire.Legacy
	}
	span := wire.Span{Lo: 0, Hi: len(params)}
	got, _ := wire.Unquote(wire.Field(params, span, "level").Of(params))
	i := slices.Index(Levels, got)
	return i < 0 || i >= slices.Index(Levels, level)
}

// ProgressEdits puts the client's own token, raw, back into the params of a
// progress notification.
func ProgressEdits(params, token []byte) wire.Value {
	v := wire.Value{Raw: params}
	if at := wire.Field(params, wire.Span{Lo: 0, Hi: len(params)}, "progressToken"); at.OK() {
		return v.With(wire.Edit{Span: at, With: token})
	}
	return v
}
