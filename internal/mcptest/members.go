package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// A Member is one member of a JSON object, its value byte for byte.
type Member struct {
	Key string
	Val json.RawMessage

	lo, hi, val int // in the object: the member from its key's quote on, and its value
}

// Members splits a JSON object into its members, in order, duplicates included.
func Members(object []byte) ([]Member, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if err := delim(dec, '{'); err != nil {
		return nil, err
	}
	var members []Member
	for dec.More() {
		lo := int(dec.InputOffset())
		lo += bytes.IndexByte(object[lo:], '"')
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var val json.RawMessage
		if err := dec.Decode(&val); err != nil {
			return nil, err
		}
		hi := int(dec.InputOffset())
		members = append(members, Member{key.(string), val, lo, hi, hi - len(val)})
	}
	return members, delim(dec, '}')
}

// Elements splits a JSON array into its elements, each byte for byte.
func Elements(array []byte) ([]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(array))
	if err := delim(dec, '['); err != nil {
		return nil, err
	}
	elements := []json.RawMessage{}
	for dec.More() {
		var e json.RawMessage
		if err := dec.Decode(&e); err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return elements, delim(dec, ']')
}

// Field returns the value of the first member of that name, nil if there is none.
func Field(object []byte, name string) json.RawMessage {
	members, _ := Members(object)
	for _, m := range members {
		if m.Key == name {
			return m.Val
		}
	}
	return nil
}

// Put returns the object with the value of the member replaced, or with the
// member added at the front if the object has none of that name.
func Put(object, name, value string) string {
	members, err := Members([]byte(object))
	if err != nil {
		return object
	}
	for _, m := range members {
		if m.Key == name {
			return object[:m.val] + value + object[m.hi:]
		}
	}
	open := strings.IndexByte(object, '{') + 1
	if len(members) > 0 {
		return object[:open] + Quote(name) + ":" + value + "," + object[open:]
	}
	return object[:open] + Quote(name) + ":" + value + object[open:]
}

// WithoutEra returns a result reduced to what both eras have: without
// resultType, ttlMs, cacheScope and reserved metadata, all else byte for byte.
// Metadata that is empty after that goes too.
func WithoutEra(result string) string {
	if meta := Field([]byte(result), "_meta"); meta != nil {
		rest := without(string(meta), func(key string) bool { return strings.HasPrefix(key, reserved) })
		if rest != string(meta) && len(strings.Trim(rest, "{} \t\r\n")) == 0 {
			result = without(result, func(key string) bool { return key == "_meta" })
		} else {
			result = Put(result, "_meta", rest)
		}
	}
	return without(result, func(key string) bool {
		return key == "resultType" || key == "ttlMs" || key == "cacheScope"
	})
}

// without deletes members together with one neighbouring comma each.
func without(object string, drop func(key string) bool) string {
	members, err := Members([]byte(object))
	if err != nil {
		return object
	}
	var b strings.Builder
	from, kept := 0, 0 // first byte not yet written; members kept so far
	for i, m := range members {
		switch {
		case !drop(m.Key):
			kept++
		case kept > 0:
			b.WriteString(object[from:members[i-1].hi])
			from = m.hi
		case i+1 < len(members):
			b.WriteString(object[from:m.lo])
			from = members[i+1].lo
		default:
			b.WriteString(object[from:m.lo])
			from = m.hi
		}
	}
	return b.String() + object[from:]
}

func delim(dec *json.Decoder, want json.Delim) error {
	t, err := dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if t != want {
		return fmt.Errorf("found %v where %v must stand", t, want)
	}
	return nil
}

// Without returns the object without the members of that name.
func Without(object, name string) string {
	return without(object, func(key string) bool { return key == name })
}
