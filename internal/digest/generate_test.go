package digest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// seeded is a source of the same numbers in every run.
func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 5)) }

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func generated(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = pick(r, []byte("bcdfghjklmnpqrstvwxz2456789"))
	}
	return string(b)
}

// failure is a class of errors of a log: what its lines have in common, and a
// piece of it that the digest must show.
type failure struct{ format, shows string }

var failures = []failure{
	{"ERROR [db-pool] connection to 10.0.%d.%d:5432 refused after %d ms", "[db-pool] connection to"},
	{"ERROR [orders] could not place order %d for customer %d: payment %d declined", "could not place order"},
	{"FATAL [main] out of memory: cannot allocate %d bytes (%d in use, %d free)", "out of memory"},
	{"ERROR [http] upstream catalog answered status 503 on attempt %d of %d after %ds", "status 503"},
	{"ERROR [http] upstream catalog answered status 500 on attempt %d of %d after %ds", "status 500"},
	{"WARN  [cache] evicted %d entries of %d in %d ms", "[cache] evicted"},
	{"WARN  [quota] tenant t-%d is at %d%% of %d", "[quota] tenant"},
	{"ERROR [orders] E1001 field %d of %d missing in row %d", "E1001"},
	{"ERROR [orders] E1002 field %d of %d missing in row %d", "E1002"},
}

// logText is a log of about size bytes with every failure in it; how often is
// told by the returned counts.
func logText(size int) ([]byte, map[string]int) {
	r := seeded(1)
	at := time.Date(2026, 9, 14, 6, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	counts := map[string]int{}
	for i := 0; b.Len() < size || i < 200; i++ {
		at = at.Add(time.Duration(r.IntN(900)) * time.Millisecond)
		b.WriteString(at.Format("2006-01-02 15:04:05.000 "))
		if i%50 == 7 {
			f := failures[(i/50)%len(failures)]
			counts[f.shows]++
			fmt.Fprintf(&b, f.format+"\n", r.IntN(250), r.IntN(250), r.IntN(90000))
			if strings.Contains(f.shows, "order") {
				b.WriteString("java.lang.IllegalStateException: declined\n\tat com.acme.Orders.place(Orders.java:120)\n\tat com.acme.Web.post(Web.java:44)\n")
			}
			continue
		}
		fmt.Fprintf(&b, "INFO  [%s] %s %d in %d ms, request %s\n", pick(r, []string{"http", "orders", "cache"}),
			pick(r, []string{"served page", "stored order", "looked up customer"}), r.IntN(100000), r.IntN(400), generated(r, 12))
	}
	return b.Bytes(), counts
}

// pods is a list of n pods as JSON, every 40th of them in a crash loop.
func pods(n int, indent string) []byte {
	r := seeded(2)
	var items []any
	for i := range n {
		app := pick(r, []string{"checkout", "ledger", "search", "mailer"})
		name := fmt.Sprintf("%s-%s-%s", app, generated(r, 9), generated(r, 5))
		state, phase, ready := map[string]any{"running": map[string]any{"startedAt": "2026-09-14T06:00:00Z"}}, "Running", true
		if i%40 == 3 {
			state, ready = map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}, false
		}
		items = append(items, map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": name, "namespace": pick(r, []string{"prod", "staging"}), "labels": map[string]any{"app": app},
				"managedFields": []any{map[string]any{"manager": "kubelet", "fieldsV1": map[string]any{"f:status": map[string]any{"f:phase": map[string]any{}}}}}},
			"spec": map[string]any{"nodeName": fmt.Sprintf("node-%d", r.IntN(40)), "containers": []any{map[string]any{"name": app, "image": "registry.test/" + app + ":v1", "resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}}}},
			"status": map[string]any{"phase": phase, "podIP": fmt.Sprintf("10.1.%d.%d", r.IntN(250), r.IntN(250)),
				"containerStatuses": []any{map[string]any{"name": app, "ready": ready, "restartCount": i % 3, "state": state}}},
		})
	}
	raw, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "PodList", "items": items}, "", indent)
	if err != nil {
		panic(err)
	}
	if indent == "" {
		var b bytes.Buffer
		_ = json.Compact(&b, raw)
		return b.Bytes()
	}
	return raw
}

// orders is a CSV table of n rows, every 500th of them failed.
func orders(n int) []byte {
	r := seeded(3)
	b := bytes.NewBufferString("id,customer,country,amount,state\n")
	for i := range n {
		state := pick(r, []string{"paid", "open", "shipped"})
		if i%500 == 77 {
			state = "failed"
		}
		fmt.Fprintf(b, "%d,\"%s, Inc.\",%s,%.2f,%s\n", 1000+i, generated(r, 8), pick(r, []string{"DE", "US", "JP"}), r.Float64()*500, state)
	}
	return b.Bytes()
}

// events is JSON that is no list of Kubernetes.
func events(n int) []byte {
	r := seeded(4)
	var items []any
	for i := range n {
		status := "done"
		if i%100 == 42 {
			status = "failed"
		}
		items = append(items, map[string]any{"id": i, "status": status, "owner": map[string]any{"name": generated(r, 8), "team": pick(r, []string{"red", "blue"})}, "tags": []string{"a", "b"}, "score": r.Float64()})
	}
	raw, err := json.MarshalIndent(map[string]any{"page": 1, "events": items}, "", "  ")
	if err != nil {
		panic(err)
	}
	return raw
}

// patchText is a diff of n files, the i-th of which gains i%7+1 lines and loses one.
func patchText(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "diff --git a/pkg/file%d.go b/pkg/file%d.go\nindex 1..2 100644\n--- a/pkg/file%d.go\n+++ b/pkg/file%d.go\n", i, i, i, i)
		fmt.Fprintf(&b, "@@ -10,3 +10,%d @@ func f%d() {\n context\n--- gone\n", i%7+3, i)
		for j := range i%7 + 1 {
			fmt.Fprintf(&b, "+	line %d\n", j)
		}
		b.WriteString(" context\n")
	}
	return b.Bytes()
}
