package summarize_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"mcp-aggregator/internal/summarize"
)

func TestAServerThatIsNotThere(t *testing.T) {
	for _, k := range kinds {
		b := local(t, func(http.ResponseWriter, *http.Request) {})
		m, err := k.make(summarize.Remote{Model: "small", URL: strings.Replace(b.url, "127.0.0.1", "localhost.invalid", 1), Key: secretKey})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Summarize(t.Context(), summarize.Build(numbered(1)), func(string) {})
		var e *summarize.Error
		if !errors.As(err, &e) || e.Outcome != summarize.Failed || !e.Away || e.Spent {
			t.Errorf("%s: %#v", k.name, err)
		}
		if strings.Contains(err.Error(), "://") {
			t.Errorf("%s: %q holds the address", k.name, err)
		}
	}
}

func TestURLs(t *testing.T) {
	tests := []struct{ url, problem string }{
		{"", ""},
		{"http://localhost:11434/v1", ""},
		{"http://localhost:11434/v1/", ""},
		{"https://gateway.example/openai?api-version=1", ""},
		{"localhost:11434", "must begin with"},
		{"ftp://host/v1", "must begin with"},
		{"https:///v1", "must begin with"},
		{"https://user:" + secretKey + "@host/v1", "put credentials into key"},
		{"https://host/%zz" + secretKey, "is no address"},
	}
	for _, k := range kinds {
		full := struct{ url, problem string }{"http://localhost" + k.path, "leave that away"}
		for _, tt := range append(tests, full) {
			_, err := k.make(summarize.Remote{Model: "small", URL: tt.url})
			switch {
			case tt.problem == "" && err != nil:
				t.Errorf("%s: %q is refused: %v", k.name, tt.url, err)
			case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)):
				t.Errorf("%s: %q: error %v, want %q", k.name, tt.url, err, tt.problem)
			case err != nil && strings.Contains(err.Error(), secretKey):
				t.Errorf("%s: the error for %q repeats the secret", k.name, tt.url)
			}
		}
		if _, err := k.make(summarize.Remote{}); err == nil {
			t.Errorf("%s: a model without a name is accepted", k.name)
		}
	}
}

// The path of the method goes behind that of the URL and before its query.
func TestWhereRequestsGo(t *testing.T) {
	for _, k := range kinds {
		for _, end := range []string{"", "/", "?api-version=2"} {
			b := local(t, func(w http.ResponseWriter, r *http.Request) {
				if end == "?api-version=2" && r.URL.RawQuery != "api-version=2" {
					w.WriteHeader(http.StatusTeapot)
				}
				send(w, k.stream("ok"))
			})
			b.url += end
			if _, err := k.model(t, b, "m").Summarize(context.Background(), summarize.Build(numbered(1)), func(string) {}); err != nil {
				t.Errorf("%s with %q: %v", k.name, end, err)
			}
			if got := b.got()[0].path; got != k.path {
				t.Errorf("%s with %q: path %q", k.name, end, got)
			}
		}
	}
}
