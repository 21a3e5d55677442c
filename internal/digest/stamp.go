package digest

import "bytes"

// stamped is how far into a line a time is looked for.
const stamped = 90

// stamp finds the time in the front of a line: where it begins and how long it
// is, or 0. Every usual way to write one has hours, minutes and seconds with
// colons between; what stands around them that looks like a date belongs to it.
func stamp(line []byte) (start, n int) {
	line = line[:min(len(line), stamped+24)]
	i := clockAt(line)
	if i < 0 {
		return epoch(line)
	}
	start = i
	for start > 0 && i-start < 26 && dateByte(line[start-1]) {
		start--
	}
	// Names of months and days, as in "Sep 14" or "14/Sep/2026:".
	for start >= 3 && i-start < 26 && letter(line[start-1]) && letter(line[start-2]) && letter(line[start-3]) &&
		(start == 3 || !letter(line[start-4])) {
		start -= 3
		for start > 0 && i-start < 26 && dateByte(line[start-1]) {
			start--
		}
	}
	for start < i && (line[start] == ' ' || line[start] == '-' || line[start] == ':' || line[start] == '.' || line[start] == '/') {
		start++
	}
	end := i + 8
	for end < len(line) && (digit(line[end]) || (line[end] == '.' || line[end] == ',') && end+1 < len(line) && digit(line[end+1])) {
		end++
	}
	return start, zone(line, end) - start
}

// clockAt is where 06:12:00 stands in line, or -1.
func clockAt(line []byte) int {
	for i := 2; i+5 < len(line) && i < stamped; i++ {
		if line[i] == ':' && line[i+3] == ':' && digit(line[i-2]) && digit(line[i-1]) && (i < 3 || !digit(line[i-3])) && digit(line[i+1]) && digit(line[i+2]) &&
			digit(line[i+4]) && digit(line[i+5]) && line[i-2] < '3' && line[i+1] < '6' && line[i+4] < '7' {
			return i - 2
		}
	}
	return -1
}

func dateByte(c byte) bool {
	return digit(c) || c == '-' || c == '/' || c == '.' || c == ' ' || c == 'T' || c == ':'
}

// zone is where a time that ends at end does with its zone: Z, +0200, +02:00.
func zone(line []byte, end int) int {
	if end < len(line) && line[end] == 'Z' {
		return end + 1
	}
	i := end
	if i < len(line) && line[i] == ' ' {
		i++
	}
	if i+5 > len(line) || line[i] != '+' && line[i] != '-' || !digit(line[i+1]) || !digit(line[i+2]) {
		return end
	}
	i += 3
	if line[i] == ':' {
		i++
	}
	if i+2 <= len(line) && digit(line[i]) && digit(line[i+1]) {
		return i + 2
	}
	return end
}

// epoch: seconds or milliseconds since 1970 at the front of a line, or behind a
// key for the time in a line of JSON.
func epoch(line []byte) (start, n int) {
	for _, key := range []string{`"ts":`, `"time":`, `"timestamp":`} {
		if i := bytes.Index(line, []byte(key)); i >= 0 && len(line) > 0 && line[0] == '{' {
			start = i + len(key)
			break
		}
	}
	if start == 0 && len(line) > 0 && line[0] == '[' {
		start = 1
	}
	for start+n < len(line) && digit(line[start+n]) {
		n++
	}
	if n != 10 && n != 13 || line[start] != '1' && line[start] != '2' {
		return 0, 0
	}
	if start+n < len(line) && line[start+n] == '.' {
		for n++; start+n < len(line) && digit(line[start+n]); n++ {
		}
	}
	return start, n
}
