package lab

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reporting is an experiment that hands back what it is given.
func reporting(name string, r Report, err error) Experiment {
	return Experiment{Name: name, Title: "a title", Shows: "What it shows.", Bound: time.Minute,
		Run: func(context.Context, Env, Options) (Report, error) { return r, err }}
}

func TestRunFailsOnAMissedBound(t *testing.T) {
	t.Parallel()
	var kept, count, timed Report
	kept.equal("calls", 4, 4)
	count.atMost("calls", 4, 5)
	timedAtMost(&timed, "time", time.Second, 2*time.Second)
	errBroken := errors.New("broken")
	tests := map[string]struct {
		report Report
		err    error
		timed  bool
		want   error
	}{
		"kept":                       {report: kept},
		"a count":                    {report: count, want: ErrMissed},
		"a count, time binds":        {report: count, timed: true, want: ErrMissed},
		"a time":                     {report: timed},
		"a time that binds":          {report: timed, timed: true, want: ErrMissed},
		"could not be made":          {err: errBroken, want: errBroken},
		"ended before its own bound": {err: context.DeadlineExceeded, want: context.DeadlineExceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			r := Runner{Out: &out, Options: Options{Timed: tt.timed}}
			_, err := r.Run(t.Context(), []Experiment{reporting("one", tt.report, tt.err)})
			if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
				t.Errorf("got %v, want %v\n%s", err, tt.want, &out)
			}
		})
	}
}

func TestRunGoesOnAfterAnExperimentThatCouldNotBeMade(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	results, err := Runner{Out: &out}.Run(t.Context(), []Experiment{
		reporting("first", Report{}, errors.New("broken")), reporting("second", Report{Notes: []string{"made"}}, nil),
	})
	if err == nil || !strings.Contains(err.Error(), "first: broken") || !strings.Contains(out.String(), "made\n") {
		t.Errorf("%v\n%s", err, &out)
	}
	if len(results) != 2 || results[0].Err == nil || len(results[1].Report.Notes) != 1 {
		t.Errorf("%+v", results)
	}
}

func TestRunStopsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	made := 0
	e := Experiment{Name: "one", Bound: time.Minute, Run: func(context.Context, Env, Options) (Report, error) {
		made++
		cancel()
		return Report{}, nil
	}}
	_, err := Runner{Out: &bytes.Buffer{}}.Run(ctx, []Experiment{e, e})
	if !errors.Is(err, context.Canceled) || made != 1 {
		t.Errorf("%v after %d experiments", err, made)
	}
}

func TestReportAsItIsPrinted(t *testing.T) {
	t.Parallel()
	r := Report{
		Tables: []Table{{Title: "Calls", Columns: []string{"", "p50", "calls"},
			Rows: [][]string{{"with µ", "1 ms", "5"}, {"without", "1001 ms", "500"}}}},
		Notes: []string{"A note."},
	}
	r.Tables = append(r.Tables, Table{Columns: []string{"", ""}, Rows: [][]string{{"without names", "1"}}})
	r.equal("charges", 1, 2)
	timedAtMost(&r, "waiting", 33, 34)
	timedAtMost(&r, "recovery", 1500*time.Millisecond, 9990*time.Microsecond)
	at := time.Unix(0, 0)
	r.before("the answer", at, at.Add(1900*time.Millisecond))
	r.before("the release", at.Add(15*time.Second), at)
	const want = `Calls
           p50      calls
  with µ   1 ms     5
  without  1001 ms  500

  without names  1

A note.

  MISS  charges: 2 (want 1)
  %s  waiting: 34 (want ≤ 33)
  ok    recovery: 9.99 ms (want ≤ 1500 ms)
  ok    the answer: 1900 ms before (want before)
  MISS  the release: 15.0 s after (want before)
`
	for _, tt := range []struct {
		timed bool
		word  string
	}{{true, "MISS"}, {false, "--  "}} {
		var out bytes.Buffer
		p := &printer{w: &out}
		p.report(r, Options{Timed: tt.timed})
		if diff := cmp.Diff(strings.Replace(want, "%s", tt.word, 1), out.String()); diff != "" || p.err != nil {
			t.Errorf("timed %v: %v\n%s", tt.timed, p.err, diff)
		}
	}
}

func TestErrorOfTheWriterIsReturned(t *testing.T) {
	t.Parallel()
	errFull := errors.New("full")
	w := writerFunc(func([]byte) (int, error) { return 0, errFull })
	if _, err := (Runner{Out: w}).Run(t.Context(), []Experiment{reporting("one", Report{}, nil)}); !errors.Is(err, errFull) {
		t.Errorf("Run: %v", err)
	}
	if err := List(w); !errors.Is(err, errFull) {
		t.Errorf("List: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWrapBreaksBetweenWords(t *testing.T) {
	t.Parallel()
	got := wrap("one two\n three µµµµ  abcdefghijkl m", 9)
	if diff := cmp.Diff("one two\nthree\nµµµµ\nabcdefghijkl\nm", got); diff != "" {
		t.Error(diff)
	}
}

func TestProofIsMadeOfTheExperimentsThatBindTheService(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"":             {"amplification", "breaker", "healthy-slow", "bulkhead", "deadline", "lost-answers", "gaps"},
		"lost-answers": {"lost-answers"},
		"timeout":      nil, // measures, and promises nothing
		"nope":         nil,
	}
	for only, want := range tests {
		got, err := Proof(only)
		var names []string
		for _, e := range got {
			names = append(names, e.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%q: %v\n%s", only, err, diff)
		}
	}
}
