package admin

import (
	"bufio"
	"encoding/hex"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// foreignUser reports whether the program at the other end of a loopback connection
// belongs to another user of this machine than we do; root is nobody's stranger. The
// kernel's table of sockets tells (proc_net_tcp(5)). What cannot be found out is no
// reason to refuse: the other end may live in another network namespace.
func foreignUser(local, remote netip.AddrPort) bool {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if uid, ok := ownerOf(table, remote, local); ok {
			return uid != 0 && uid != os.Getuid()
		}
	}
	return false
}

// ownerOf finds the user of the socket from one address to another.
func ownerOf(table string, from, to netip.AddrPort) (uid int, ok bool) {
	f, err := os.Open(table)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // number, local, remote, state, queues, timer, retransmits, uid
		if len(fields) < 8 || !isAddress(fields[1], from) || !isAddress(fields[2], to) {
			continue
		}
		uid, err := strconv.Atoi(fields[7])
		return uid, err == nil
	}
	return 0, false
}

// isAddress compares an address of the table, such as 0100007F:1F90, in which every
// four bytes stand in the order of the machine. All that Linux runs on with a loopback
// worth guarding is little-endian.
func isAddress(text string, want netip.AddrPort) bool {
	host, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, bad := hex.DecodeString(host)
	if err != nil || bad != nil || uint16(n) != want.Port() {
		return false
	}
	for i := 0; i+4 <= len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	return ok && addr.Unmap() == want.Addr().Unmap()
}
