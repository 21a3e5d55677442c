//go:build unix

package upstream

import "syscall"

// peek reports whether the peer has closed the connection or broken it off: reading
// would give its end or an error. It takes nothing from what can be read.
func peek(fd uintptr, b []byte) (closed bool) {
	n, _, err := syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	if err != nil {
		return err != syscall.EAGAIN && err != syscall.EINTR
	}
	return n == 0
}
