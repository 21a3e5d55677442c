package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// bounds are the upper ends of the buckets: fine where calls usually end, up to the
// usual call_timeout.
var bounds = [...]time.Duration{
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
	2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, 90 * time.Second,
}

// A histogram counts durations. The zero value is empty.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64 // the last has no upper end
	sum     atomic.Int64                   // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// metric is the histogram in milliseconds.
func (h *histogram) metric(desc *prometheus.Desc, labels ...string) prometheus.Metric {
	upTo, n := make(map[float64]uint64, len(bounds)), uint64(0)
	for i := range bounds {
		n += h.buckets[i].Load()
		upTo[milliseconds(bounds[i])] = n
	}
	n += h.buckets[len(bounds)].Load()
	return prometheus.MustNewConstHistogram(desc, n, milliseconds(time.Duration(h.sum.Load())), upTo, labels...)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
