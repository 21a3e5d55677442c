package excerpt

import (
	"fmt"
	"unicode/utf8"
)

// lines reads a piece of the text as it is.
func (r *Reader) lines(t *Text, q Query) (Excerpt, error) {
	q, err := r.plain(t, q)
	if err != nil {
		return Excerpt{}, err
	}
	start := border(t.data, q.Offset)
	if q.From > 0 {
		start = t.begin(q.From)
	}
	end := r.end(t, q, start)
	size := fitLines(t.data[start:end], r.limits.Chars)
	if q.Bytes > 0 {
		size, _ = fit(t.data[start:end], r.limits.Chars)
	}
	e := Excerpt{Total: t.lines, Start: start, End: start + size, Size: len(t.data)}
	e.Text = t.data[e.Start:e.End:e.End]
	e.From, e.To = t.lineAt(e.Start), t.lineAt(max(e.Start, e.End-1))
	e.Next = t.after(q, e.End, end)
	e.Note = t.describe(e, end)
	return e, nil
}

// plain turns pages, head and tail into lines, and refuses what lies behind the end.
func (r *Reader) plain(t *Text, q Query) (Query, error) {
	switch {
	case q.Page > 0:
		size := or(q.PageSize, r.limits.PageSize)
		if pages := (t.lines-1)/size + 1; q.Page > pages {
			return q, fmt.Errorf("%w: there is no page %d: the text has %d pages of %d lines", ErrQuery, q.Page, pages, size)
		}
		q = Query{From: (q.Page-1)*size + 1, PageSize: size}
	case q.Head > 0:
		q = Query{From: 1, To: q.Head}
	case q.Tail > 0:
		q = Query{From: max(1, t.lines-q.Tail+1)}
	case q.From == 0 && q.Offset == 0 && q.Bytes == 0:
		q.From = 1
	}
	if q.From > t.lines {
		return q, fmt.Errorf("%w: there is no line %d: the text has %d lines", ErrQuery, q.From, t.lines)
	}
	if q.Offset >= len(t.data) {
		return q, fmt.Errorf("%w: offset %d is behind the end: the text has %d bytes", ErrQuery, q.Offset, len(t.data))
	}
	if line := t.lineAt(q.Offset); q.To > 0 && q.To < line {
		return q, fmt.Errorf("%w: offset %d is in line %d, behind to (%d)", ErrQuery, q.Offset, line, q.To)
	}
	return q, nil
}

// end returns where what was asked for ends.
func (r *Reader) end(t *Text, q Query, start int) int {
	switch {
	case q.Bytes > 0 && q.Bytes < len(t.data)-start:
		end := border(t.data, start+q.Bytes)
		if end == start { // less than a character: go on at least
			_, size := utf8.DecodeRune(t.data[start:])
			end += size
		}
		return end
	case q.Bytes > 0:
		return len(t.data)
	case q.To > 0 && q.To < t.lines:
		return t.begin(q.To + 1)
	case q.PageSize > 0:
		if line := t.lineAt(start); q.PageSize <= t.lines-line {
			return t.begin(line + q.PageSize)
		}
	}
	return len(t.data)
}

// after returns the query that reads on, of one that asked for what ends at end and
// was answered up to at.
func (t *Text) after(q Query, at, end int) *Query {
	if at == len(t.data) || at == end && q.To > 0 {
		return nil
	}
	next := &Query{To: q.To, PageSize: q.PageSize, Bytes: q.Bytes}
	if q.Bytes > 0 || !t.atLineStart(at) {
		next.Offset = at
	} else {
		next.From = t.lineAt(at)
	}
	return next
}

func (t *Text) describe(e Excerpt, end int) string {
	note := fmt.Sprintf("lines %d-%d of %d, bytes %d-%d of %d", e.From, e.To, e.Total, e.Start, e.End, e.Size)
	if !t.atLineStart(e.Start) {
		note += fmt.Sprintf("; begins inside line %d", e.From)
	}
	if e.End < e.Size && !t.atLineStart(e.End) {
		note += fmt.Sprintf("; ends inside line %d", e.To)
	}
	if e.End < end {
		note += fmt.Sprintf("; the last %d bytes of what was asked for are left off", end-e.End)
	}
	return note + goOn(e.Next)
}
