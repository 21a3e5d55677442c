//go:build !unix

package upstream

import (
	"errors"
	"syscall"
)

// Here is no keeper: only the child itself can be ended, and it sees the end of its
// input.

const canKeep = false

func keep() {}

func ownProgram() (string, error) { return "", errors.ErrUnsupported }

func ownSessionLeader() *syscall.SysProcAttr { return nil }

func startTime(int) string { return "" }

func ownSession() int { return 0 }
