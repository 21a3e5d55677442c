package digest

import "bytes"

// templated is how much of a line its class depends on.
const templated = 320

// template appends the class of a line to buf: the line without its time, with #
// for what varies from line to line (numbers, addresses, identifiers). Codes
// that tell errors apart (E1001, status 503) stay.
func template(buf, line []byte) []byte {
	line = message(line)
	from := len(buf)
	if request := request(line); request != nil {
		method, status := request[:len(request)-3], request[len(request)-3:]
		return append(spare(buf, method), status...)
	}
	if start, n := stamp(line); n > 0 {
		rest := bytes.TrimLeft(line[start+n:], `]" `)
		buf = spare(buf, bytes.TrimRight(line[:start], `[" `))
		if len(buf) > from && len(rest) > 0 {
			buf = append(buf, ' ')
		}
		line = rest
	}
	return spare(buf, line[:min(len(line), templated)])
}

// request is the part of a line of an access log from the method to the status.
func request(line []byte) []byte {
	if _, ok := accessStatus(line); !ok {
		return nil
	}
	i := bytes.Index(line, []byte(" HTTP/"))
	start := bytes.LastIndexByte(line[:i], '"')
	end := i + bytes.IndexByte(line[i:], '"') + 2 // accessStatus saw it, and the status behind it
	for end < len(line) && digit(line[end]) {
		end++
	}
	return line[start+1 : end]
}

// message is what of a line of JSON or of key=value pairs says what happened;
// other lines are it themselves.
func message(line []byte) []byte {
	var msg, err []byte
	switch {
	case len(line) == 0:
	case line[0] == '{':
		msg, err = field(line, `"msg":`, `"message":`), field(line, `"error":`, `"err":`)
	default:
		if msg = field(line, ` msg=`); msg != nil {
			err = field(line, ` error=`, ` err=`)
		}
	}
	if msg == nil {
		return line
	}
	if len(err) > 0 {
		msg = append(append(append([]byte(nil), msg...), ": "...), err...)
	}
	return msg
}

// field is the string behind the first of keys that occurs in a line, as it is
// written there.
func field(line []byte, keys ...string) []byte {
	for _, key := range keys {
		i := bytes.Index(line, []byte(key))
		if i < 0 {
			continue
		}
		v := bytes.TrimLeft(line[i+len(key):], " ")
		if len(v) == 0 || v[0] != '"' {
			continue
		}
		v = v[1:]
		for end := 0; end < len(v); end++ {
			switch v[end] {
			case '\\':
				end++
			case '"':
				return v[:end:end]
			}
		}
	}
	return nil
}

// spare appends line to buf with # for what varies.
func spare(buf, line []byte) []byte {
	keep := false // the word before says that a code follows
	value := -1   // where the value of key=value begins in buf
	for i := 0; i < len(line); {
		c := line[i]
		if !letter(c) && !digit(c) {
			if c == '=' {
				value = len(buf) + 1
			} else if c == ' ' || c == '\t' || c == ',' || c == ']' {
				buf, value = anonymous(buf, value), -1
			}
			if c == ' ' || c == '\t' {
				for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
					i++
				}
				buf = append(buf, ' ')
				continue
			}
			buf = append(buf, c)
			i++
			continue
		}
		start := i
		digits, capitals, changes := 0, 0, 0
		for i < len(line) && (letter(line[i]) || digit(line[i])) {
			if digit(line[i]) {
				digits++
			} else if line[i] < 'a' {
				capitals++
			}
			if i > start && digit(line[i]) != digit(line[i-1]) {
				changes++
			}
			i++
		}
		word := line[start:i]
		switch {
		case digits == 0 && len(buf) > 1 && buf[len(buf)-1] == '-' && buf[len(buf)-2] == '#' && hexadecimal(word):
			buf = hash(buf, word) // a part of a UUID
		case digits == 0 && !random(word):
			buf = append(buf, word...)
			keep = isCodeKey(word)
			continue
		case digits > 0 && capitals > 0 && capitals <= 4 && digits <= 5 && capitals+digits == len(word) && changes == 1 && letter(word[0]):
			buf = append(buf, word...) // E1001
		case keep && digits == len(word) && digits <= 3:
			buf = append(buf, word...) // status 503
		default:
			buf = hash(buf, word)
		}
		keep = false
	}
	return anonymous(buf, value)
}

// anonymous replaces the value of key=value, which begins at value in buf, if a
// part of it varies: pod="shop/#" is any pod.
func anonymous(buf []byte, value int) []byte {
	if value < 0 || value >= len(buf) || bytes.IndexByte(buf[value:], '#') < 0 {
		return buf
	}
	if buf[value] == '"' && buf[len(buf)-1] != '"' {
		return buf // a sentence
	}
	return append(buf[:value], '#')
}

// hash appends # for word, once for several that hang together with dots, dashes
// and colons: an address, a UUID, the name of a pod.
func hash(buf, word []byte) []byte {
	n := len(buf)
	if n >= 2 && buf[n-2] == '#' && (buf[n-1] == '.' || buf[n-1] == '-' || buf[n-1] == ':') {
		return buf[:n-1]
	}
	return append(buf, '#')
}

// random: letters no word has, as in generated names: many and no vowel, or too
// many to be a word.
func random(word []byte) bool {
	if len(word) < 5 {
		return false
	}
	if len(word) > 40 {
		return true
	}
	for _, c := range word {
		switch c {
		case 'a', 'e', 'i', 'o', 'u', 'y':
			return false
		}
		if c < 'a' {
			return false // an abbreviation
		}
	}
	return true
}

func hexadecimal(word []byte) bool {
	for _, c := range word {
		if c < 'a' || c > 'f' {
			return false
		}
	}
	return len(word) == 4 || len(word) > 7
}

// isCodeKey: a number behind word is a code, not a measure.
func isCodeKey(word []byte) bool {
	var buf [24]byte
	switch string(lowerWord(word, &buf)) {
	case "status", "code", "statuscode", "errno", "signal", "exit", "exitcode":
		return true
	}
	return false
}
