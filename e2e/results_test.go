//go:build e2e && linux

package e2e_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-aggregator/e2e/harness"
	"mcp-aggregator/internal/mcptest"
	"mcp-aggregator/internal/tokens"
)

// digested is the bulky server behind the aggregator, whose large results become digests.
func digested(t testing.TB) harness.Config {
	return harness.Servers(map[string]harness.Config{"bulky": harness.Child(t, "bulky")}).
		With("results", harness.Config{"policy": "digest", "max_summary_tokens": digestLimit}).With("mask", harness.Config{"sets": []string{"default"}})
}

const digestLimit = 1200 // tokens: room for forty lines of a log

func TestLargeResultsBecomeDigestsAndTheirOriginalsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, digested(t))
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		r := readAs(t, overHTTP(t, a.URL), version, nil)
		r.await("bulky__log", true)
		for name, text := range originals {
			t.Run(version+" "+name, func(t *testing.T) {
				r := &reader{t, r.session}
				original := text()
				want := asMasked(original)
				if want == original {
					t.Fatal("there is nothing to be hidden in the original")
				}
				s := r.call("bulky__"+name, nil)
				digest := digestIn(t, s, len(want))
				if got, _ := r.original(s.note.Handle); got != want {
					sameText(t, "result_read", got, want)
				}
				got, err := r.resource(s.note.URI)
				if err != nil {
					t.Fatal(err)
				}
				sameText(t, "resources/read", got, want)
				if name == "log" {
					namesEveryClass(t, digest)
				}
				if strings.Contains(digest, "ghp_") {
					t.Errorf("a token is in the digest:\n%s", digest)
				}
			})
		}
	}
}

// digestIn returns the digest that a client got, after a look at all that comes with it.
func digestIn(t *testing.T, s shown, size int) string {
	t.Helper()
	head, digest, ok := strings.Cut(s.text, "]\n\n")
	if !ok || s.note.Policy != "digest" || s.note.Handle == "" || !strings.Contains(head, s.note.Handle) || s.result.IsError {
		t.Fatalf("got %+v: %.500s", s.note, s.text)
	}
	if n := tokens.Auto.Text([]byte(digest)); n > digestLimit || n < digestLimit/10 {
		t.Errorf("the digest has %d tokens, the limit is %d:\n%s", n, digestLimit, digest)
	}
	if n := s.note.Tokens; n < size/8 || n > size*2/3 {
		t.Errorf("%d bytes are taken for %d tokens", size, n)
	}
	link, ok := s.result.Content[len(s.result.Content)-1].(*mcp.ResourceLink)
	if !ok || link.URI != s.note.URI || link.Size == nil || *link.Size != int64(size) {
		t.Errorf("the last content is %#v, want a link to %s", link, s.note.URI)
	}
	return digest
}

// namesEveryClass complains about classes of errors that a digest does not name with
// their count.
func namesEveryClass(t *testing.T, digest string) {
	t.Helper()
	_, classes := errorLog(5 << 20)
	if len(classes) != 40 {
		t.Errorf("there are %d classes", len(classes))
	}
next:
	for _, c := range classes {
		for line := range strings.Lines(digest) {
			if strings.HasPrefix(strings.TrimSpace(line), fmt.Sprintf("%dx L", c.count)) && strings.Contains(line, c.words[0]) && strings.Contains(line, c.words[1]) {
				continue next
			}
		}
		t.Errorf("no line says %dx %q in\n%s", c.count, c.words, digest)
	}
}

func TestOriginalsAreReadOnTheStdioFace(t *testing.T) {
	t.Parallel()
	path := digested(t).Write(t)
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		r := readAs(t, &mcp.CommandTransport{Command: exec.Command(harness.Binary(t), "serve", "--config", path, "--stdio")}, version, nil)
		r.await("bulky__diff", true)
		s := r.call("bulky__diff", nil)
		want := asMasked(largeDiff(1 << 20))
		got, answers := r.original(s.note.Handle)
		if answers < 50 {
			t.Errorf("result_read gives all in %d answers", answers)
		}
		sameText(t, "result_read", got, want)
		if got, err := r.resource(s.note.URI); err != nil || got != want {
			t.Errorf("resources/read gives %d bytes, %v", len(got), err)
		}
	}
}

// An aggregator that is a server of another one makes results small for it; the other
// one's clients read the originals by its tool.
func TestOriginalsAreReadThroughAnotherAggregator(t *testing.T) {
	t.Parallel()
	inner := harness.Config{"command": harness.Binary(t), "args": []string{"serve", "--stdio", "--config", digested(t).Write(t)}}
	a := harness.Serve(t, harness.Servers(map[string]harness.Config{"inner": inner}))
	for _, version := range []string{mcptest.LegacyVersion, mcptest.ModernVersion} {
		r := readAs(t, overHTTP(t, a.URL), version, nil)
		r.await("inner__bulky__diff", true)
		s := r.call("inner__bulky__diff", nil)
		digestIn(t, s, len(asMasked(largeDiff(1<<20))))
		got, _ := r.originalBy("inner__result_read", s.note.Handle)
		sameText(t, version, got, asMasked(largeDiff(1<<20)))
	}
}

func TestTypeScriptClientsReadOriginalsToo(t *testing.T) {
	t.Parallel()
	a := harness.Serve(t, digested(t))
	for _, generation := range []string{"v1", "v2"} {
		t.Run(generation, func(t *testing.T) {
			var calls []scriptedCall
			for name := range originals {
				calls = append(calls, scriptedCall{Tool: "bulky__" + name, Read: true})
			}
			got := runResults(t, generation, a.URL, calls)
			for name, text := range originals {
				res := got.Results["bulky__"+name]
				want := digestOf(asMasked(text()))
				if res.Original != want || res.Resource != want {
					t.Errorf("%s: result_read gave %s in %d answers, resources/read %s, want %s", name, res.Original, res.Answers, res.Resource, want)
				}
				if res.Policy != "digest" || res.Link == "" || res.Link != res.URI {
					t.Errorf("%s: %+v", name, res)
				}
			}
		})
	}
}

func TestOriginalsThatAreTooLongAreCutAtALine(t *testing.T) {
	t.Parallel()
	config := digested(t)
	config["results"] = harness.Config{"policy": "digest", "keep": harness.Config{"each": "1MiB"}}
	a := harness.Serve(t, config)
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("bulky__log", true)
	s := r.call("bulky__log", nil)
	text := asMasked(originals["log"]())
	note := fmt.Sprintf("[truncated: original size %d bytes, limit %d]", len(text), 1<<20)
	got, _ := r.original(s.note.Handle)
	kept, cut := strings.CutSuffix(got, note)
	if !cut || !strings.HasPrefix(text, kept) || !strings.HasSuffix(kept, "\n") || len(kept) > 1<<20 || len(kept) < 1<<20-200 {
		t.Errorf("%d bytes are kept, the end is %.200q", len(got), got[max(0, len(got)-200):])
	}
	if head, _, _ := strings.Cut(s.text, "\n"); !strings.Contains(head, "the first 1,048,576 are kept, up to a line") || strings.Contains(head, "whole") {
		t.Errorf("the client is told %s", head)
	}
	link := s.result.Content[len(s.result.Content)-1].(*mcp.ResourceLink)
	if *link.Size != int64(len(got)) || strings.Contains(link.Description, "whole") {
		t.Errorf("the link says %+v", link)
	}
}

func TestOriginalsAreGoneAfterTheirTime(t *testing.T) {
	t.Parallel()
	config := digested(t)
	config["results"] = harness.Config{"policy": "digest", "keep": harness.Config{"ttl": "1s"}}
	a := harness.Serve(t, config)
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("bulky__diff", true)
	s := r.call("bulky__diff", nil)
	if text, err := r.resource(s.note.URI); err != nil || text == "" {
		t.Errorf("at first: %v", err)
	}
	// Reading keeps an original alive: look at the count instead.
	harness.Eventually(t, 10*time.Second, "nothing is kept", func() bool { return metric(t, a, "", "mcp_kept_results") == 0 })
	if n := metric(t, a, "", `mcp_kept_expired_total`); n != 1 {
		t.Errorf("%v are said to have expired", n)
	}
	notFound(t, r, s)
}

// notFound complains if an original can be read.
func notFound(t *testing.T, r *reader, s shown) {
	t.Helper()
	got := r.call("result_read", map[string]any{"handle": s.note.Handle})
	if !got.result.IsError || !strings.HasPrefix(got.text, "not found") {
		t.Errorf("result_read gives %.200s", got.text)
	}
	if text, err := r.resource(s.note.URI); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("resources/read gives %.200s, %v", text, err)
	}
}

func TestKilledAggregatorsLeaveNoOriginalsBehind(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	config := digested(t).With("state_dir", state)
	config["results"] = harness.Config{"policy": "digest", "keep": harness.Config{"memory": "4KiB"}}
	a := harness.Serve(t, config)
	r := readAs(t, overHTTP(t, a.URL), mcptest.ModernVersion, nil)
	r.await("bulky__log", true)
	r.call("bulky__table", nil)
	s := r.call("bulky__diff", nil)
	before := keptFiles(t, state)
	if len(before) < 2 {
		t.Fatalf("nothing was moved to the disk: %s", before)
	}
	if got, err := r.resource(s.note.URI); err != nil || got != asMasked(largeDiff(1<<20)) {
		t.Errorf("what is on the disk cannot be read: %v", err)
	}
	_ = a.Cmd.Process.Kill()
	<-a.Done
	if left := keptFiles(t, state); len(left) == 0 {
		t.Fatal("the killed process has left nothing to be removed")
	}
	again := harness.Serve(t, config)
	next := readAs(t, overHTTP(t, again.URL), mcptest.ModernVersion, nil)
	next.await("bulky__log", true)
	after := keptFiles(t, state)
	for path := range before {
		if _, there := after[path]; there {
			t.Errorf("%s of the killed process is still there", path)
		}
	}
	notFound(t, next, s)
	if err := again.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	if left := keptFiles(t, state); len(left) != 0 {
		t.Errorf("after the end there is still %v", left)
	}
}

// keptFiles are the files in the folder for originals with their contents, after a look
// at who may read them. The locks of processes are left out.
func keptFiles(t *testing.T, state string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join(state, "results")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v", path, info.Mode())
		}
		if d.IsDir() || d.Name() == "lock" {
			return nil
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
