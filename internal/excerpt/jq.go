package excerpt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/itchyny/gojq"
)

// maxProgram is the longest jq program, in bytes.
const maxProgram = 10_000

// job is what the parent tells the child: a line of JSON in front of the text.
type job struct {
	Program string
	Raw     bool
	Skip    int           // bytes of output
	Chars   int           // of output after that
	Time    time.Duration // for all
	Memory  int64         // bytes
}

// report is what the child answers.
type report struct {
	Output   []byte
	Results  int    // that begin in Output, also in part
	More     bool   // there is output after it
	Late     bool   // time was up before all results were there
	Skipped  int    // bytes of output left out before Output; less than asked for if there is no more
	Inputs   int    // values in the text
	Failed   int    // inputs that ended with an error
	Error    string // the first of these errors
	NoJSON   string // why the text is no JSON, or no longer, with NoJSONAt
	NoJSONAt int    // byte offset in the text
	Program  string // why the program cannot be compiled
}

// grace is what starting the child and sending it the text may take in addition.
const grace = 2 * time.Second

func (r *Reader) jq(ctx context.Context, t *Text, q Query) (Excerpt, error) {
	if len(q.JQ) > maxProgram {
		return Excerpt{}, fmt.Errorf("%w: jq: the program is %d bytes long, at most %d are allowed", ErrQuery, len(q.JQ), maxProgram)
	}
	if _, err := gojq.Parse(q.JQ); err != nil {
		return Excerpt{}, fmt.Errorf("%w: jq: %s", ErrQuery, clip(err.Error()))
	}
	if len(t.data) > r.limits.JQInput {
		return Excerpt{}, fmt.Errorf("%w: jq: the text has %d bytes, jq reads at most %d; use grep or lines", ErrLimit, len(t.data), r.limits.JQInput)
	}
	if err := r.enter(ctx); err != nil {
		return Excerpt{}, err
	}
	defer func() { <-r.running }()
	rep, err := r.child(ctx, t.data, job{
		Program: q.JQ, Raw: q.Raw, Skip: q.Offset, Chars: r.limits.Chars, Time: r.limits.Time, Memory: r.limits.JQMemory,
	})
	if err != nil {
		return Excerpt{}, err
	}
	return rep.excerpt(t, q, r.limits.Time)
}

// enter waits for a place among the running programs, but not longer than one may run.
func (r *Reader) enter(ctx context.Context) error {
	timer := time.NewTimer(r.limits.Time)
	defer timer.Stop()
	select {
	case r.running <- struct{}{}:
		return nil
	case <-timer.C:
		return ErrBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// child runs a job in a process of its own and kills it when its time is over.
func (r *Reader) child(ctx context.Context, text []byte, j job) (*report, error) {
	head, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("encoding a jq job: %w", err)
	}
	cmd, err := command(ctx, j.Time+grace)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer cmd.release()
	answer := &bounded{left: j.Chars*8 + 64<<10} // four bytes a character, base64, the rest
	cmd.Stdin = io.MultiReader(bytes.NewReader(append(head, '\n')), bytes.NewReader(text))
	cmd.Stdout = answer
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case cmd.late():
		return nil, tooLate(j.Time)
	case errors.As(err, &exit) && exit.ExitCode() == exitLate:
		return nil, tooLate(j.Time)
	case errors.As(err, &exit):
		return nil, fmt.Errorf("%w: jq: the program used more than %d MiB of memory or went too deep; select less with it", ErrLimit, j.Memory>>20)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var rep report
	if err := json.Unmarshal(answer.Bytes(), &rep); err != nil {
		return nil, fmt.Errorf("%w: reading its answer: %w", ErrUnavailable, err)
	}
	return &rep, nil
}

func tooLate(limit time.Duration) error {
	return fmt.Errorf("%w: jq: the program ran for %v without a result and was stopped; select less with it", ErrLimit, limit)
}

// process is a child that is killed after a while.
type process struct {
	*exec.Cmd
	timed   context.Context
	release context.CancelFunc
}

func (p *process) late() bool { return errors.Is(p.timed.Err(), context.DeadlineExceeded) }

// command prepares the child: this very program, which becomes a jq worker because of
// the name it is called by. It inherits no environment, and so no secret.
func command(ctx context.Context, limit time.Duration) (*process, error) {
	path := "/proc/self/exe" // the running program, even if the file was replaced
	if runtime.GOOS != "linux" {
		var err error
		if path, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	timed, release := context.WithTimeout(ctx, limit)
	cmd := exec.CommandContext(timed, path)
	cmd.Args = []string{workerName}
	// Under the race detector a process would sleep for a second before it ends.
	cmd.Env = []string{"GOTRACEBACK=none", "GOMAXPROCS=2", "GORACE=atexit_sleep_ms=0"}
	cmd.WaitDelay = time.Second
	return &process{cmd, timed, release}, nil
}

// bounded takes what the child writes, and breaks the pipe when it is too much.
type bounded struct {
	bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("the answer is too long")
	}
	return b.Buffer.Write(p)
}

func (rep *report) excerpt(t *Text, q Query, limit time.Duration) (Excerpt, error) {
	switch {
	case rep.Program != "":
		return Excerpt{}, fmt.Errorf("%w: jq: %s", ErrQuery, rep.Program)
	case rep.NoJSON != "" && rep.Inputs == 0:
		return Excerpt{}, fmt.Errorf("%w: jq: the text is no JSON: line %d: %s; use grep or lines", ErrQuery, t.lineAt(rep.NoJSONAt), rep.NoJSON)
	case len(rep.Output) == 0 && rep.Late:
		return Excerpt{}, tooLate(limit)
	case len(rep.Output) == 0 && rep.Failed > 0 && rep.Skipped == 0:
		return Excerpt{}, fmt.Errorf("%w: jq: %s", ErrQuery, rep.Error)
	case len(rep.Output) == 0 && rep.Skipped < q.Offset:
		return Excerpt{}, fmt.Errorf("%w: jq: offset %d is behind the end: the output has %d bytes", ErrQuery, q.Offset, rep.Skipped)
	}
	e := Excerpt{Text: rep.Output, Start: q.Offset, End: q.Offset + len(rep.Output), Matches: rep.Results}
	e.Note = fmt.Sprintf("%d results, bytes %d-%d of the output", rep.Results, e.Start, e.End)
	if rep.Inputs > 1 {
		e.Note += fmt.Sprintf(", of %d JSON values", rep.Inputs)
	}
	if rep.Failed > 0 {
		e.Note += fmt.Sprintf("; %d values failed, the first with: %s", rep.Failed, rep.Error)
	}
	if rep.NoJSON != "" {
		e.Note += fmt.Sprintf("; the text is no JSON from line %d on: %s", t.lineAt(rep.NoJSONAt), rep.NoJSON)
	}
	if rep.Late {
		e.Note += fmt.Sprintf("; not complete: stopped after %v", limit)
	}
	if rep.More {
		next := q
		next.Offset = e.End
		e.Next = &next
		e.Note += "; more is left off"
	}
	e.Note += goOn(e.Next)
	return e, nil
}

// clip bounds messages of jq, which quote what they complain about.
func clip(message string) string {
	const most = 300
	if size, _ := fit([]byte(message), most); size < len(message) {
		return message[:size] + "…"
	}
	return message
}
