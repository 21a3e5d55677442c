package excerpt

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// jq cannot be made safe inside this process. gojq looks at its context between
// instructions, but one instruction can run for ever (tojson, ==, sort or flatten of a
// value that holds itself twice, a hundred levels deep; array minus array; match("";"g")
// of a long text), and some end the process in a way that nothing can recover:
// null|.[5e8]=1 allocates 8 GB at once, and tojson of a million nested arrays overflows
// the stack. A goroutine cannot be stopped or limited. A process can.
//
// The child is this program under another name. It becomes a worker in an init
// function, before main or the tests of a test binary run: whoever imports this package
// can start it, and no main can forget to ask, which would start the program in full.
func init() {
	if len(os.Args) == 1 && os.Args[0] == workerName {
		os.Exit(work(os.Stdin, os.Stdout))
	}
}

const workerName = "mcp-aggregator-jq-worker"

// How a worker ends that cannot answer. The runtime ends it with 2 when memory or stack
// are exhausted.
const (
	exitBroken = 1
	exitLate   = 3
	exitMemory = 4
)

// maxStack is how much the stack may take, in bytes; the runtime would allow 1 GB.
const maxStack = 64 << 20

// work reads a job and the text and writes a report.
func work(in io.Reader, out io.Writer) int {
	reader := bufio.NewReaderSize(in, 64<<10)
	var j job
	head, err := reader.ReadBytes('\n')
	if err != nil || json.Unmarshal(head, &j) != nil {
		return exitBroken
	}
	confine(j)
	// The program learns a little earlier than the watch that time is up, so that it
	// can hand over what it has.
	ctx, cancel := context.WithTimeout(context.Background(), j.Time-j.Time/8)
	defer cancel()
	answer, err := json.Marshal(run(ctx, j, reader))
	if err != nil {
		return exitBroken
	}
	if _, err := out.Write(answer); err != nil {
		return exitBroken
	}
	return 0
}

// confine bounds what this process can take: by the kernel where it can (see
// limitMemory), and by looking on everywhere. The worker ends itself, also when its
// parent has died.
func confine(j job) {
	limitMemory(j.Memory)
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(j.Memory / 2)
	time.AfterFunc(j.Time, func() { os.Exit(exitLate) })
	go watchMemory(j.Memory)
}

// watchMemory ends the process when it holds more than it may.
func watchMemory(most int64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(5 * time.Millisecond) {
		metrics.Read(sample)
		if int64(sample[0].Value.Uint64()-sample[1].Value.Uint64()) > most {
			os.Exit(exitMemory)
		}
	}
}

// run runs the program on each JSON value in the text.
func run(ctx context.Context, j job, text io.Reader) *report {
	rep := &report{}
	code, err := compileJQ(j.Program)
	if err != nil {
		rep.Program = clip(err.Error())
		return rep
	}
	sink := &sink{skip: j.Skip, chars: j.Chars, rep: rep}
	dec := json.NewDecoder(text)
	dec.UseNumber() // all digits of a number stay
	for {
		at := dec.InputOffset()
		var value any
		err := dec.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			rep.NoJSON, rep.NoJSONAt = clip(err.Error()), int(at)
			if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
				rep.NoJSONAt = max(rep.NoJSONAt, int(syntax.Offset)-1)
			}
			break
		}
		rep.Inputs++
		if !runOn(ctx, code, value, j.Raw, sink) {
			break
		}
	}
	sink.finish()
	return rep
}

func compileJQ(program string) (*gojq.Code, error) {
	query, err := gojq.Parse(program)
	if err != nil {
		return nil, err
	}
	return gojq.Compile(query) // without environment, modules and input
}

// runOn runs the program on one value; false means that it is enough.
func runOn(ctx context.Context, code *gojq.Code, value any, raw bool, sink *sink) bool {
	rep := sink.rep
	results := code.RunWithContext(ctx, value)
	for {
		result, ok := results.Next()
		if !ok {
			return true
		}
		if err, failed := result.(error); failed {
			var halt *gojq.HaltError
			switch {
			case ctx.Err() != nil:
				rep.Late = true
				return false
			case errors.As(err, &halt) && halt.Value() == nil:
				return false
			}
			if rep.Failed++; rep.Failed == 1 {
				rep.Error = clip(err.Error())
			}
			return true
		}
		text, plain := result.(string)
		line := []byte(text)
		if !raw || !plain {
			var err error
			if line, err = gojq.Marshal(result); err != nil {
				rep.Failed, rep.Error = rep.Failed+1, clip(err.Error())
				return true
			}
		}
		if !sink.write(append(line, '\n')) {
			return false
		}
	}
}

// sink keeps the part of the output that was asked for.
type sink struct {
	skip  int // bytes still to leave out
	chars int // the output may have
	rep   *report
}

// write takes a result; false means that no more are needed.
func (s *sink) write(line []byte) bool {
	if s.skip >= len(line) {
		s.skip -= len(line)
		s.rep.Skipped += len(line)
		return true
	}
	if s.skip > 0 {
		cut := border(line, s.skip)
		s.rep.Skipped += s.skip
		s.skip, line = 0, line[cut:]
	}
	s.rep.Output = append(s.rep.Output, line...)
	s.rep.Results++
	return len(s.rep.Output) <= s.chars*utf8.UTFMax
}

// finish cuts the output to its size.
func (s *sink) finish() {
	rep := s.rep
	size := fitLines(rep.Output, s.chars)
	if size == len(rep.Output) {
		return
	}
	for rest := rep.Output[size:]; len(rest) > 0; rest = rest[lineEnd(rest, 0):] {
		rep.Results--
	}
	if rep.Output[size-1] != '\n' {
		rep.Results++
	}
	rep.Output, rep.More = rep.Output[:size], true
}
