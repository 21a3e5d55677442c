//go:build !linux

package excerpt

// limitMemory does nothing: here only the watch bounds the worker.
func limitMemory(int64) {}
