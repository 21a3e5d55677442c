package digest

import "bytes"

// level is how bad a line of a log is.
type level uint8

const (
	levelError level = iota
	levelWarn
	levelMention // says it is harmless, but speaks of an error
	levelInfo
	levelDebug
	levelNone
	levels
)

var levelNames = [levels]string{"error", "warn", "harmless but mentioning errors", "info", "debug", "no level"}

// judgement is what a line says about itself.
type judgement struct {
	level    level
	explicit bool // the line names its level, as against speaking of an error
}

// judged is how much of a line is read to judge it.
const judged = 600

// levelOf judges a line: by the level it names where levels stand, else by the
// status of an access log, else by the words it uses.
func levelOf(line []byte) judgement {
	line = line[:min(len(line), judged)]
	if l, ok := klog(line); ok {
		return judgement{l, true}
	}
	if l, ok := accessStatus(line); ok {
		return judgement{l, true}
	}
	bad := levelNone
	key := false // the word before says that a level follows
	front := true
	for i := 0; i < len(line); {
		if !letter(line[i]) {
			if key && digit(line[i]) {
				if l, ok := numericLevel(line[i:]); ok {
					return judgement{mentioned(l, bad), true}
				}
				key = false
			}
			i++
			continue
		}
		start := i
		for i < len(line) && letter(line[i]) {
			i++
		}
		word := line[start:i]
		if i < len(line) && digit(line[i]) || start > 0 && digit(line[start-1]) {
			front = front && len(word) < 4
			continue
		}
		if l, ok := logcat(line, start, i); ok {
			return judgement{mentioned(l, bad, line[i:]...), true}
		}
		if l, ok := levelWord(word); ok && (key || placed(line, start, i, front)) {
			return judgement{mentioned(l, bad, line[i:]...), true}
		}
		if w := badWord(word, line, start, i); w < bad {
			bad = w
		}
		key = isLevelKey(word)
		// Times, host names and the like stand before the level; then sentences begin.
		front = front && start < 100
	}
	return judgement{bad, false}
}

// mentioned lowers what is harmless by its level but speaks of an error before
// or behind it.
func mentioned(l, bad level, rest ...byte) level {
	if l < levelInfo {
		return l
	}
	if bad == levelError || speaksOfError(rest) {
		return levelMention
	}
	return l
}

func speaksOfError(text []byte) bool {
	for i := 0; i < len(text); {
		if !letter(text[i]) {
			i++
			continue
		}
		start := i
		for i < len(text) && letter(text[i]) {
			i++
		}
		if badWord(text[start:i], text, start, i) == levelError {
			return true
		}
	}
	return false
}

// klog: E0914 06:12:00.123456 …
func klog(line []byte) (level, bool) {
	if len(line) < 8 || line[5] != ' ' {
		return 0, false
	}
	for _, c := range line[1:5] {
		if !digit(c) {
			return 0, false
		}
	}
	switch line[0] {
	case 'E', 'F':
		return levelError, true
	case 'W':
		return levelWarn, true
	case 'I':
		return mentioned(levelInfo, levelNone, line[6:]...), true
	}
	return 0, false
}

// accessStatus: … HTTP/1.1" 502 …
func accessStatus(line []byte) (level, bool) {
	i := bytes.Index(line, []byte(" HTTP/"))
	if i < 0 {
		return 0, false
	}
	q := bytes.IndexByte(line[i:], '"')
	if q < 0 || q > 12 || i+q+5 > len(line) || line[i+q+1] != ' ' {
		return 0, false
	}
	switch line[i+q+2] {
	case '5':
		return levelError, true
	case '4':
		return levelWarn, true
	case '1', '2', '3':
		return levelInfo, true
	}
	return 0, false
}

// placed: a level word stands alone in capitals, in brackets, or first on its line.
func placed(line []byte, start, end int, front bool) bool {
	word := line[start:end]
	if !front && start > 200 {
		return false
	}
	if len(word) > 2 && bytes.Equal(bytes.ToUpper(word), word) {
		return true
	}
	before, after := byte(' '), byte(' ')
	if start > 0 {
		before = line[start-1]
	}
	if end < len(line) {
		after = line[end]
	}
	switch before {
	case '[', '<', '(':
		return after == ']' || after == '>' || after == ')' || after == ' '
	}
	if after != ':' && after != ' ' && after != ',' && after != '\t' {
		return false
	}
	return start == 0 || behindTime(line, start)
}

// behindTime: before start there is nothing but what ends like a time, a number
// or a bracket, and that is near the front.
func behindTime(line []byte, start int) bool {
	before := bytes.TrimRight(line[:start], " \t,-|")
	if len(before) == 0 || len(before) == start || start > 70 {
		return false
	}
	c := before[len(before)-1]
	return digit(c) || c == ']' || c == 'Z'
}

// logcat: a single letter between numbers and a tag, as Android writes levels.
func logcat(line []byte, start, end int) (level, bool) {
	if end != start+1 || end >= len(line) || line[end] != ' ' && line[end] != '/' || !behindTime(line, start) {
		return 0, false
	}
	switch line[start] {
	case 'E', 'F':
		return levelError, true
	case 'W':
		return levelWarn, true
	case 'I':
		return levelInfo, true
	case 'D', 'V':
		return levelDebug, true
	}
	return 0, false
}

// numericLevel reads the levels of pino and bunyan.
func numericLevel(s []byte) (level, bool) {
	if len(s) < 2 || !digit(s[1]) || len(s) > 2 && digit(s[2]) {
		return 0, false
	}
	switch s[0] {
	case '5', '6':
		return levelError, true
	case '4':
		return levelWarn, true
	case '3':
		return levelInfo, true
	case '1', '2':
		return levelDebug, true
	}
	return 0, false
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool  { return '0' <= c && c <= '9' }
