package lab

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTerminalSaysWhatIsMadeAndForHowLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := Experiment{Name: "slow", Bound: time.Minute, Run: func(ctx context.Context, _ Env, _ Options) (Report, error) {
			select {
			case <-time.After(2500 * time.Millisecond):
				return Report{}, nil
			case <-ctx.Done():
				return Report{}, ctx.Err()
			}
		}}
		if _, err := (Runner{Out: &bytes.Buffer{}, Terminal: &out}).Run(t.Context(), []Experiment{e}); err != nil {
			t.Fatal(err)
		}
		const clear = "\r\x1b[K"
		want := clear + "1/1 slow  0s" + clear + "1/1 slow  1s" + clear + "1/1 slow  2s" + clear
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTerminalThatTakesNothingIsNoError(t *testing.T) {
	t.Parallel()
	w := writerFunc(func([]byte) (int, error) { return 0, errors.New("gone") })
	if _, err := (Runner{Out: &bytes.Buffer{}, Terminal: w}).Run(t.Context(), []Experiment{reporting("one", Report{}, nil)}); err != nil {
		t.Error(err)
	}
}

func TestListTellsTheDocumentsExperimentsFromOurOwn(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := List(&out); err != nil {
		t.Fatal(err)
	}
	documents, ours, ok := strings.Cut(out.String(), "\nThis service's own")
	if !ok {
		t.Fatal(out.String())
	}
	for _, e := range All() {
		part, other := documents, ours
		if e.Ours {
			part, other = other, part
		}
		if !strings.Contains(part, "\n  "+e.Name+" ") || strings.Contains(other, "\n  "+e.Name+" ") {
			t.Errorf("%s is missing, or in the wrong part:\n%s", e.Name, &out)
		}
	}
	for _, want := range []string{"\n  breaker         proof  A PSP", "\n  timeout                How long"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, &out)
		}
	}
}
