package tokens_test

import (
	"encoding/json"
	"os"
	"testing"

	"mcp-aggregator/internal/tokens"
)

var sink int

// BenchmarkEstimate shows the throughput over the samples repeated to a
// megabyte, as text and as the JSON string that carries it in a result.
func BenchmarkEstimate(b *testing.B) {
	for _, name := range []string{"log_kubelet.txt", "k8s_list_pretty.txt", "go_source.txt", "csv_orders.txt", "chinese.txt"} {
		sample, err := os.ReadFile("testdata/" + name)
		if err != nil {
			b.Fatal(err)
		}
		text := grow(sample, 1<<20)
		quoted, err := json.Marshal(string(text))
		if err != nil {
			b.Fatal(err)
		}
		b.Run("text/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				sink += tokens.Auto.Text(text)
			}
		})
		b.Run("json/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(quoted)))
			b.ReportAllocs()
			for b.Loop() {
				sink += tokens.Auto.JSON(quoted)
			}
		})
	}
}
