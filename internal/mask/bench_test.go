package mask_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"mcp-aggregator/internal/mask"
	"mcp-aggregator/internal/wire"
)

const mega = 1 << 20

// cleanLog is a log as services write it, without secrets.
func cleanLog(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "2026-03-%02dT%02d:%02d:%02d.%03dZ %s [worker-%d] request id=%08x-%04x-4%03x-a%03x-%012x path=/api/v1/namespaces/%s/pods status=%d took=%dms commit=%020x\n",
			1+i%28, i%24, i%60, i*7%60, r.IntN(1000), []string{"INFO ", "DEBUG", "WARN ", "ERROR"}[r.IntN(4)], r.IntN(64), r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48),
			[]string{"default", "kube-system", "payments", "checkout"}[r.IntN(4)], 200+r.IntN(5)*100, r.IntN(3000), r.Uint64())
		if i%9 == 0 {
			fmt.Fprintf(&b, "\tat com.example.auth.TokenFilter.doFilter(TokenFilter.java:%d) connecting to https://api.example.com/v1/users?page=%d\n", r.IntN(900), r.IntN(99))
		}
	}
	return b.Bytes()[:size]
}

// cleanKube is a list of pods as kubectl prints it, without secrets.
func cleanKube(size int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	var items []any
	for i, n := 0, 0; n < size; i++ {
		name := fmt.Sprintf("checkout-%08x-%05x", r.Uint32(), r.IntN(1<<20))
		pod := map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{
				"name": name, "namespace": "shop", "uid": fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<12), r.Int64N(1<<48)),
				"labels":          map[string]string{"app.kubernetes.io/name": "checkout", "pod-template-hash": fmt.Sprintf("%08x", r.Uint32())},
				"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true}},
			},
			"spec": map[string]any{
				"containers": []any{map[string]any{
					"name": "app", "image": "registry.example.com/shop/checkout@sha256:" + fmt.Sprintf("%064x", r.Uint64()),
					"env":          []any{map[string]any{"name": "DB_PASSWORD", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "db", "key": "password"}}}, map[string]any{"name": "PORT", "value": "8080"}},
					"volumeMounts": []any{map[string]any{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-7x2kq", "readOnly": true}},
				}},
				"imagePullSecrets": []any{map[string]any{"name": "regcred"}}, "serviceAccountName": "checkout",
				"volumes": []any{
					map[string]any{"name": "kube-api-access-7x2kq", "projected": map[string]any{"sources": []any{map[string]any{"serviceAccountToken": map[string]any{"expirationSeconds": 3607, "path": "token"}}}}},
					map[string]any{"name": "tls", "secret": map[string]any{"secretName": "checkout-tls", "defaultMode": 420}},
				},
			},
			"status": map[string]any{"phase": "Running", "podIP": fmt.Sprintf("10.0.%d.%d", r.IntN(255), r.IntN(255)), "conditions": []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T10:00:00Z"}}},
		}
		items = append(items, pod)
		n += 2600
	}
	text, _ := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "    ")
	return text
}

func seeded(text []byte, n int) []byte {
	r := rand.New(rand.NewPCG(5, 6))
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i := range n {
		at := (i + 1) * len(lines) / (n + 2)
		lines[at] = append([]byte(fmt.Sprintf("INFO login token=ghp_%018x%018x ok\n", r.Uint64(), r.Uint64())), lines[at]...)
	}
	return bytes.Join(lines, nil)
}

func result(text []byte) []byte {
	raw, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}})
	return raw
}

func everything(b *testing.B) *mask.Masker {
	return masker(b, mask.Options{Sets: []string{"all"}, Code: []string{mask.KubernetesSecret}, Values: []string{"a-configured-value-0001", "an/other \"one\""}})
}

// measure reports the speed in processor time too, which other work on the machine
// does not change as much.
func measure(b *testing.B, size int, f func()) {
	b.ReportAllocs()
	var from, to syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &from) //nolint:errcheck // cannot fail
	n := 0
	for b.Loop() {
		f()
		n++
	}
	syscall.Getrusage(syscall.RUSAGE_SELF, &to) //nolint:errcheck // cannot fail
	took := to.Utime.Nano() + to.Stime.Nano() - from.Utime.Nano() - from.Stime.Nano()
	b.ReportMetric(float64(size)*float64(n)/float64(took)*1e3, "cpu-MB/s")
}

func BenchmarkText(b *testing.B) {
	m := everything(b)
	for _, c := range []struct {
		name string
		text []byte
	}{{"log", cleanLog(mega)}, {"kubernetes", cleanKube(mega)}, {"log with 100 secrets", seeded(cleanLog(mega), 100)}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			measure(b, len(c.text), func() { m.Text(c.text, nil) })
		})
	}
}

func BenchmarkEdits(b *testing.B) {
	m := everything(b)
	for _, c := range []struct {
		name string
		raw  []byte
	}{
		{"log", result(cleanLog(mega))}, {"kubernetes as text", result(cleanKube(mega))}, {"kubernetes as value", cleanKube(mega)},
		{"log with 100 secrets", result(seeded(cleanLog(mega), 100))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.raw)))
			measure(b, len(c.raw), func() { m.Edits(c.raw, wire.Span{Hi: len(c.raw)}, nil) })
		})
	}
}
