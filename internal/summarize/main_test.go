package summarize_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(proxyChild) != "" {
		os.Exit(askThroughProxy())
	}
	goleak.VerifyTestMain(m)
}
