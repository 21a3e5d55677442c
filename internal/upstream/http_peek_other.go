//go:build !unix

package upstream

const canPeek = false

func peek(uintptr, []byte) pending { return pendingNothing }
