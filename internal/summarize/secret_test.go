package summarize_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"mcp-aggregator/internal/summarize"
)

// Servers repeat credentials in what they send: in errors, pages, statuses, in the
// middle of much else.
func TestNoErrorHoldsACredential(t *testing.T) {
	said := "you sent Bearer " + secretKey + " and " + secretHeader + " and hush-hush-query"
	filler := strings.Repeat("x", 290)
	answers := map[string]func(apiKind, http.ResponseWriter, *http.Request){
		"in an error's message":       status(401, `{"error":{"message":`+quoted(said)+`}}`),
		"as an error":                 status(403, `{"error":`+quoted(said)+`}`),
		"as plain text":               status(500, said),
		"at the end of what is shown": status(500, `{"message":`+quoted(filler+secretKey)+`}`),
		"in a long body":              status(500, strings.Repeat(secretKey+" ", 1000)),
		"in a web page":               status(502, "<html>"+said),
		"in the stream":               text(func(apiKind) string { return `data: {"error":{"message":` + quoted(said) + `}}` + "\n\n" }),
		"in a 200":                    text(func(apiKind) string { return `{"error":` + quoted(said) + `}` }),
		"in a redirect": func(_ apiKind, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.invalid/"+secretKey, http.StatusFound)
		},
		"in a header that cannot be read": func(_ apiKind, w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+secretKey+" "+secretHeader+"\r\n"+secretKey+"\r\n\r\n")
				_ = conn.Close()
			}
		},
	}
	for _, k := range kinds {
		for name, serve := range answers {
			t.Run(k.name+" "+name, func(t *testing.T) {
				b := local(t, func(w http.ResponseWriter, r *http.Request) { serve(k, w, r) })
				b.url += "?token=hush-hush-query"
				var told []summarize.Attempt
				s := opened(t, summarize.Options{
					Models:    []summarize.Model{k.model(t, b, "m")},
					Attempted: func(a summarize.Attempt) { told = append(told, a) },
				})
				_, outcome, err := s.Summarize(t.Context(), numbered(1), nil, nil)
				if outcome != summarize.Failed || len(told) != 1 {
					t.Fatalf("%q, %v, told %v", outcome, err, told)
				}
				all, _ := json.Marshal([]any{told, err, err.Error(), told[0].Err.Error(), s.Stats(), s.Circuits()})
				for _, secret := range []string{secretKey, secretKey[:10], secretHeader, secretHeader[:10], "hush-hush-query"} {
					if strings.Contains(string(all), secret) {
						t.Errorf("%q is in %s", secret, all)
					}
				}
				if len(err.Error()) > 500 {
					t.Errorf("an error of %d bytes", len(err.Error()))
				}
			})
		}
	}
}

// proxyChild is set in the process that asks through a proxy: net/http reads the
// environment once in the life of a process.
const proxyChild = "SUMMARIZE_TEST_PROXY_CHILD"

func askThroughProxy() int {
	m, err := summarize.NewOpenAI(summarize.Remote{Model: "small", URL: "http://model.invalid/v1"})
	if err == nil {
		_, err = m.Summarize(context.Background(), summarize.Build(numbered(1)), func(s string) { _, _ = io.WriteString(os.Stdout, s) })
	}
	if err != nil {
		_, _ = io.WriteString(os.Stdout, err.Error())
		return 1
	}
	return 0
}

func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	b := local(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host == "model.invalid" { // a proxy gets the whole address
			send(w, kinds[0].stream("through the proxy"))
		}
	})
	run := func(proxy string) (string, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.timeout=20s")
		cmd.Env = append(os.Environ(), proxyChild+"=1", "HTTP_PROXY="+proxy, "http_proxy="+proxy, "NO_PROXY=", "no_proxy=")
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		return string(out), err
	}
	if out, err := run(strings.TrimSuffix(b.url, "/v1")); err != nil || out != "through the proxy" {
		t.Errorf("%q, %v", out, err)
	}
	out, err := run("http://user:" + secretKey + "@proxy.invalid:1")
	if err == nil || !strings.Contains(out, "proxy.invalid") || strings.Contains(out, secretKey) {
		t.Errorf("with a proxy that is not there: %q, %v", out, err)
	}
}
