package digest

import (
	"bytes"
	"strings"
)

// lowerWord is word in small letters, in place of an allocation; longer words
// than buf are none of those looked for.
func lowerWord(word []byte, buf *[24]byte) []byte {
	if len(word) > len(buf) {
		return nil
	}
	for i, c := range word {
		buf[i] = c | 0x20
	}
	return buf[:len(word)]
}

// levelWord is the level that word names.
func levelWord(word []byte) (level, bool) {
	var buf [24]byte
	switch string(lowerWord(word, &buf)) {
	case "error", "err", "eror", "fatal", "critical", "crit", "panic", "emerg", "emergency", "alert", "severe":
		return levelError, true
	case "warning", "warn", "wrn":
		return levelWarn, true
	case "info", "inf", "notice", "information", "informational":
		return levelInfo, true
	case "debug", "dbg", "trace", "trc", "verbose", "fine", "finer", "finest":
		return levelDebug, true
	}
	return levelNone, false
}

// isLevelKey: what follows is the level.
func isLevelKey(word []byte) bool {
	var buf [24]byte
	switch string(lowerWord(word, &buf)) {
	case "level", "lvl", "severity", "loglevel", "levelname", "priority":
		return true
	}
	return false
}

// badWord is how bad it is that word occurs in line[start:end]: levelError,
// levelWarn or levelNone.
func badWord(word, line []byte, start, end int) level {
	var buf [24]byte
	low := lowerWord(word, &buf)
	switch string(low) {
	case "error", "errors", "err":
		if denied(line, start, end) {
			return levelNone
		}
		return levelError
	case "failed", "failure", "failures", "fail", "fails", "failing", "fatal", "exception", "exceptions", "panic", "panicked", "traceback",
		"segfault", "denied", "refused", "unreachable", "aborted", "oomkilled", "crashloopbackoff", "imagepullbackoff", "corrupt", "corrupted":
		if denied(line, start, end) {
			return levelNone
		}
		return levelError
	case "warning", "warn", "deprecated":
		return levelWarn
	}
	// NullPointerException, TimeoutError
	if len(word) > 9 && (bytes.HasSuffix(word, []byte("Exception")) || bytes.HasSuffix(word, []byte("Error"))) {
		return levelError
	}
	return levelNone
}

// denied: "no errors", "0 failed", "error=nil", "errors: 0".
func denied(line []byte, start, end int) bool {
	before := strings.TrimRight(string(line[max(0, start-9):start]), " ")
	for _, no := range []string{"no", "No", "without", "zero"} {
		if strings.HasSuffix(before, no) && (len(before) == len(no) || !letter(before[len(before)-len(no)-1])) {
			return true
		}
	}
	if strings.HasSuffix(before, "0") && (len(before) == 1 || !digit(before[len(before)-2])) {
		return true
	}
	after := strings.TrimLeft(string(line[end:min(len(line), end+12)]), `"'`)
	if after == "" || after[0] != '=' && after[0] != ':' {
		return false
	}
	after = strings.TrimLeft(after[1:], ` "'`)
	for _, nothing := range []string{"nil", "null", "None", "none", "false", "<nil>"} {
		if strings.HasPrefix(after, nothing) {
			return true
		}
	}
	return strings.HasPrefix(after, "0") && (len(after) == 1 || !digit(after[1]) && after[1] != 'x')
}

// trouble: a short value that says something is wrong, as states do.
func trouble(value string) bool {
	if len(value) < 4 || len(value) > 40 {
		return false
	}
	switch strings.ToLower(value) {
	case "error", "errored", "err", "failed", "failure", "fail", "failing", "fatal", "critical", "crit", "panic", "unhealthy", "down", "degraded", "offline",
		"crashloopbackoff", "imagepullbackoff", "errimagepull", "oomkilled", "evicted", "notready", "unknown", "terminating", "lost", "timeout", "timed_out", "timedout",
		"unavailable", "rejected", "aborted", "createcontainerconfigerror", "createcontainererror", "runcontainererror", "containercannotrun", "deadlineexceeded", "backoff",
		"severe", "stuck", "expired", "broken", "outofsync", "missing", "stalled", "dead", "unreachable", "invalidimagename":
		return true
	}
	return strings.HasPrefix(value, "Init:") && value != "Init:0/1" && !digit(value[5])
}
