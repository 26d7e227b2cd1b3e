package server_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"chargeonce/internal/payment"
)

func TestAPreferredWaitGivesTheHoldersAnswer(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.slowPSP(400 * time.Millisecond)
	for _, f := range faces {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			e, key, req := e.in(t), unique("waited"), purchase(unique("o"))
			first := make(chan outcome, 1)
			go func() { first <- e.send(f, sending{keys: []string{key}, message: req}) }()
			e.until("the first has the key", func() bool { return e.keyRow(key) == "processing" })
			got := e.send(f, sending{keys: []string{key}, prefer: []string{"return=minimal", "wait=5"}, message: req})
			want := <-first
			if got.Payment == nil || got.Payment.GetId() != want.Payment.GetId() || !got.Replayed || got.Applied != "wait=5" {
				t.Errorf("the second: %+v, want the first one's answer", got)
			}
			if want.Applied != "" {
				t.Errorf("the first asked for nothing, and is told %q", want.Applied)
			}
		})
	}
}

func TestAPreferredWaitEndsWithThe409(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{timing: payment.Timing{Reserve: time.Second}})
	for _, tt := range []struct {
		name                 string
		prefer               string
		timeout, least, most time.Duration
		applied              []string
	}{
		{"as long as asked for", "wait=1", 0, time.Second, 5 * time.Second, []string{"wait=1"}},
		{"cut to the deadline", "wait=20", 3 * time.Second, 1900 * time.Millisecond, 3 * time.Second, []string{"wait=3", "wait=2"}},
		{"of no time: ignored", "wait=0", 0, 0, 5 * time.Second, []string{""}},
		{"malformed: ignored", "wait=soon", 0, 0, 5 * time.Second, []string{""}},
	} {
		for _, f := range faces {
			t.Run(string(f)+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				e, key, req := e.in(t), unique("held"), purchase("busy")
				e.hold(key, req)
				start := time.Now()
				got := e.send(f, sending{keys: []string{key}, prefer: []string{tt.prefer}, timeout: tt.timeout, message: req})
				took := time.Since(start)
				if got.Reason != "IDEMPOTENCY_KEY_IN_PROGRESS" || !slices.Contains(tt.applied, got.Applied) || took < tt.least || took > tt.most {
					t.Errorf("after %v: %+v", took, got)
				}
			})
		}
	}
}

// The preference is honoured though there is nobody to wait for: the server would have waited.
func TestAPreferredWaitIsAppliedToEveryAnswerOfTheKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	for _, f := range faces {
		for _, req := range finals {
			key, prefer := unique("applied"), []string{"wait=5"}
			for range 2 {
				if got := e.send(f, sending{keys: []string{key}, prefer: prefer, message: req.request}); got.Applied != "wait=5" {
					t.Errorf("%s, %s: applied %q", f, req.name, got.Applied)
				}
			}
		}
	}
	header := e.header("")
	header.Set("Prefer", "wait=5")
	if got := e.rest(http.MethodGet, "/payments", header, ""); got.HTTP != 200 || got.Applied != "" {
		t.Errorf("a read, which waits for nobody: %d, applied %q", got.HTTP, got.Applied)
	}
}
