//go:build unix

package upstream

import "syscall"

const canPeek = true

// peek looks what can be read from a socket without waiting, and takes nothing.
func peek(fd uintptr, b []byte) pending {
	n, _, err := syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return pendingNothing
	case err != nil || n == 0:
		return pendingEnd
	}
	return pendingData
}
