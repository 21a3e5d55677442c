package admin_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"

	"mcp-aggregator/internal/admin"
)

// A connection made by another user of the machine may look but not act.
func TestOtherUsersOfTheMachineMayChangeNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a connection that belongs to somebody else")
	}
	var asked []string
	srv := httptest.NewServer(admin.New(options(&asked)))
	defer srv.Close()
	for _, tt := range []struct {
		method, path string
		uid, want    int
	}{
		{"POST", api + "/servers/github/reconnect", 0, 200},
		{"POST", api + "/servers/github/reconnect", 65534, 403},
		{"PUT", api + "/servers", 65534, 403},
		{"GET", api + "/servers", 65534, 200},
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		file, err := conn.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Fchown(int(file.Fd()), tt.uid, -1); err != nil {
			t.Skip("the owner of a socket cannot be changed here: ", err)
		}
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", tt.method, tt.path, srv.Listener.Addr())
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		file.Close()
		conn.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s %s as user %d: %d, want %d", tt.method, tt.path, tt.uid, res.StatusCode, tt.want)
		}
	}
}
