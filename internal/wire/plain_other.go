//go:build !amd64

package wire

import "encoding/binary"

// plainRun returns how many bytes at the beginning of b are ordinary inside a JSON
// string: ASCII without quotes, backslashes and control characters. It looks at
// words of eight bytes and may stop early.
func plainRun(b []byte) int {
	i := 0
	for i+8 <= len(b) && special(binary.LittleEndian.Uint64(b[i:])) == 0 {
		i += 8
	}
	return i
}
