//go:build unix

package config_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcp-aggregator/internal/config"
)

// Reading a pipe that nobody writes to would never end.
func TestAPipeIsRefusedWithoutReadingIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path, env); err == nil || !strings.Contains(err.Error(), "is not a regular file but a named pipe") {
		t.Errorf("got %v", err)
	}
	if _, err := config.Load("/dev/zero", env); err == nil || !strings.Contains(err.Error(), "is not a regular file but a device") {
		t.Errorf("got %v", err)
	}
}
