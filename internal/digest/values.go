package digest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kept is how many different values of a field are counted apart, and short how
// long a value may be to be one of them.
const (
	kept  = 48
	short = 60
)

// values is what occurs in a field: its types, and which values how often.
type values struct {
	n                     int // values that are neither null nor empty
	empty                 int // null or empty
	numbers, bools, texts int
	min, max              float64
	fraction              bool
	counts                map[string]int
	order                 []string // of counts, as they first occur
	others                int      // values not counted apart
	longest               int
	pool                  *int // how many more values may be counted apart, shared with other fields; nil: any number
	example               string
}

// add counts a value that is text.
func (v *values) add(value string) {
	if value == "" {
		v.empty++
		return
	}
	v.texts++
	v.tally(value)
}

// number counts a value that is a number, written as value.
func (v *values) number(value string, f float64) {
	if v.numbers == 0 || f < v.min {
		v.min = f
	}
	if v.numbers == 0 || f > v.max {
		v.max = f
	}
	v.numbers++
	v.fraction = v.fraction || strings.ContainsAny(value, ".eE")
	v.tally(value)
}

func (v *values) tally(value string) {
	v.n++
	v.longest = max(v.longest, len(value))
	if v.example == "" {
		v.example = strings.Clone(value[:min(len(value), 2*short)])
	}
	if n, ok := v.counts[value]; ok {
		v.counts[value] = n + 1
		return
	}
	if len(v.counts) >= kept || len(value) > short {
		v.others++
		return
	}
	if v.pool != nil {
		if *v.pool <= 0 {
			v.others++
			return
		}
		*v.pool--
	}
	if v.counts == nil {
		v.counts = map[string]int{}
	}
	value = strings.Clone(value)
	v.counts[value] = 1
	v.order = append(v.order, value)
}

// few: the values repeat, so their counts say something.
func (v *values) few() bool {
	return v.n > 0 && v.others == 0 && (len(v.order) <= 12 && len(v.order)*2 <= v.n || len(v.order) == 1 && v.n > 1)
}

// top is the most frequent values, those that say that something is wrong first.
func (v *values) top(n int) string {
	order := slices.Clone(v.order)
	slices.SortStableFunc(order, func(a, b string) int {
		if ta, tb := trouble(a), trouble(b); ta != tb {
			if ta {
				return -1
			}
			return 1
		}
		return v.counts[b] - v.counts[a]
	})
	var parts []string
	for _, value := range order[:min(n, len(order))] {
		parts = append(parts, fmt.Sprintf("%s %d", quoted(value), v.counts[value]))
	}
	if len(order) > n {
		parts = append(parts, fmt.Sprintf("%d more", len(order)-n))
	}
	return strings.Join(parts, ", ")
}

// String describes the field.
func (v *values) String() string {
	if v.n == 0 {
		return "empty"
	}
	if v.n == 1 && v.empty == 0 {
		return quoted(clip(v.example, 2*short))
	}
	var what string
	switch v.n {
	case v.numbers:
		what = "number"
	case v.bools:
		what = "true/false"
	case v.texts:
		what = "text"
	default:
		what = "mixed"
	}
	switch {
	case v.few():
		what += ": " + v.top(6)
	case v.numbers == v.n:
		what += fmt.Sprintf(" %s to %s", number(v.min), number(v.max))
	case v.others == 0 && len(v.order) < v.n:
		what += fmt.Sprintf(", %d different: %s", len(v.order), v.top(3))
	default:
		what += fmt.Sprintf(", up to %d bytes, as %s", v.longest, quoted(clip(v.example, short)))
	}
	if v.empty > 0 {
		what += fmt.Sprintf("; %d empty", v.empty)
	}
	return what
}

// bad is how many values say that something is wrong.
func (v *values) bad() int {
	n := 0
	for _, value := range v.order {
		if trouble(value) {
			n += v.counts[value]
		}
	}
	return n
}

func quoted(value string) string {
	if value != "" && !strings.ContainsAny(value, " ,:\"'\t\n") {
		return value
	}
	return strconv.Quote(value)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', 10, 64) }
