package wire

// plainRun returns how many bytes at the beginning of b are ordinary inside a JSON
// string: ASCII without quotes, backslashes and control characters. It looks at
// blocks of 32 bytes and may stop early at the end of b. A megabyte takes a quarter
// of the time that words of eight bytes take.
//
//go:noescape
func plainRun(b []byte) int
