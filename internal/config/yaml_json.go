package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
)

// YAMLToJSON converts one YAML document to JSON. The order of keys and the digits of numbers are kept;
// what JSON has no form for, such as .inf, is an error, as are the things a configuration may not hold:
// keys that are not scalars, keys given twice, unknown tags, nesting over 100 levels. It stands here because this is
// the package that reads YAML.
func YAMLToJSON(src []byte) ([]byte, error) {
	l := &loader{file: "YAML", env: os.LookupEnv}
	var root *node
	if text, ok := l.checkText(src); ok {
		root = l.parseYAML(text)
	}
	if len(l.problems) > 0 {
		ps := Problems(sorted(l.problems))
		return nil, &ps
	}
	if root == nil {
		root = place(1, 1)
	}
	return root.appendJSON(nil)
}

func (n *node) appendJSON(dst []byte) ([]byte, error) {
	switch n.shape {
	case isNull:
		return append(dst, "null"...), nil
	case isBool:
		return append(dst, strings.ToLower(n.text)...), nil
	case isNumber:
		digits, err := jsonNumber(n.text)
		if err != nil {
			return nil, fmt.Errorf("line %d, column %d: %w", n.line, n.col, err)
		}
		return append(dst, digits...), nil
	case isText:
		return appendString(dst, n.text), nil
	}
	open, end := byte('['), byte(']')
	if n.shape == isMapping {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	var err error
	for i, item := range n.items {
		if dst, err = item.appendJSON(comma(dst, i)); err != nil {
			return nil, err
		}
	}
	for i, p := range n.pairs {
		dst = append(appendString(comma(dst, i), p.key.text), ':')
		if dst, err = p.val.appendJSON(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, end), nil
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return append(dst, strings.TrimSuffix(b.String(), "\n")...)
}

var errNoNumber = errors.New("JSON has no form for this number")

// jsonNumber keeps the digits of a number that JSON writes in the same way, and rewrites YAML's other forms:
// 0x1f, 0o17, 0b11, 1_000, +1, .5.
func jsonNumber(s string) (string, error) {
	if json.Valid([]byte(s)) {
		return s, nil
	}
	if n, ok := new(big.Int).SetString(s, 0); ok {
		return n.String(), nil
	}
	f := strings.TrimPrefix(strings.ReplaceAll(s, "_", ""), "+")
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(f, "-"), "."); ok {
		f = strings.TrimSuffix(f, "."+rest) + "0." + rest
	}
	if strings.HasSuffix(f, ".") {
		f += "0"
	}
	if json.Valid([]byte(f)) {
		return f, nil
	}
	return "", errNoNumber
}
