//go:build !unix

package mcptest

import "os"

func killSelf() { os.Exit(1) }
