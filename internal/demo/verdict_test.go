package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"chargeonce/api/payments/v1/client"
	"chargeonce/internal/rig"
)

func ptr[T any](v T) *T { return &v }

// asItMust is what comes of a story that goes as expected says.
func asItMust() (expected want, f found) {
	return want{answers: answers{"201", "409 → 201 replayed"}, charges: 1, rows: 1, lease: 2},
		found{answers: answers{"201", "409 → 201 replayed"}, charges: ptr(1), rows: ptr(1), key: ptr("done, lease 2"), payments: 1}
}

func TestEveryDifferenceFailsAScenario(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*found){
		"no charge":                   func(f *found) { f.charges = ptr(0) },
		"two charges":                 func(f *found) { f.charges = ptr(2) },
		"no row":                      func(f *found) { f.rows = ptr(0) },
		"two rows":                    func(f *found) { f.rows = ptr(2) },
		"another status":              func(f *found) { f.answers = answers{"201", "409 → 200 replayed"} },
		"not replayed":                func(f *found) { f.answers = answers{"201", "409 → 201"} },
		"an answer less":              func(f *found) { f.answers = answers{"201"} },
		"an answer more":              func(f *found) { f.answers = append(f.answers, "201") },
		"the key is still processing": func(f *found) { f.key = ptr("processing, lease 2") },
		"another lease":               func(f *found) { f.key = ptr("done, lease 1") },
		"two payments":                func(f *found) { f.payments = 2 },
		"no payment":                  func(f *found) { f.payments = 0 },
	}
	for name, spoil := range tests {
		expected, f := asItMust()
		spoil(&f)
		if (result{checks: expected.hold(f)}).ok() {
			t.Errorf("%s: passes", name)
		}
	}
	expected, f := asItMust()
	if r := (result{checks: expected.hold(f)}); !r.ok() {
		t.Errorf("the expected fails: %+v", r.checks)
	}
	if (result{checks: expected.hold(f), err: errors.New("broken off")}).ok() {
		t.Error("a story that was broken off passes")
	}
}

func TestWhatCannotBeLookedAtIsNotChecked(t *testing.T) {
	t.Parallel()
	expected, f := asItMust()
	f.charges, f.key = nil, nil // no PSP and no database
	var names []string
	for _, c := range expected.hold(f) {
		names = append(names, c.what)
	}
	if diff := cmp.Diff([]string{"payment rows", "answers", "payments that they name"}, names); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

func TestNeedsSayWhatTheStageLacks(t *testing.T) {
	t.Parallel()
	bare, withPSP, full := &stage{}, &stage{psp: &rig.PSP{}}, &stage{psp: &rig.PSP{}, rig: &rig.Rig{}}
	tests := []struct {
		needs needs
		on    *stage
		plays bool
	}{
		{needs{}, bare, true}, {needs{faults: true}, bare, false}, {needs{faults: true}, withPSP, true},
		{needs{processes: true}, withPSP, false}, {needs{processes: true, faults: true}, full, true},
	}
	for _, tt := range tests {
		if why := tt.needs.missing(tt.on); (why == "") != tt.plays {
			t.Errorf("%+v on %+v: %q, want it to play: %v", tt.needs, tt.on, why, tt.plays)
		}
	}
}

func TestVerdictAndSummaryTellWhatDiffers(t *testing.T) {
	t.Parallel()
	expected, f := asItMust()
	f.charges = ptr(2)
	r := result{scenario: scenario{name: "s", title: "t"}, took: 1500 * time.Millisecond, found: f, checks: expected.hold(f)}
	var plain, colored bytes.Buffer
	for _, p := range []*printer{newPrinter(&plain, false), newPrinter(&colored, true)} {
		p.verdict(r)
		p.summary([]result{r})
		if p.err != nil {
			t.Fatal(p.err)
		}
	}
	for _, want := range []string{"FAIL  charges at the PSP: 2 (expected 1)", "FAIL  s         1500  2        1     done, lease 2  201 | 409", "0 of 1 as they must be, in 1.5 s."} {
		if !strings.Contains(plain.String(), want) {
			t.Errorf("%q is missing in\n%s", want, plain.String())
		}
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("colours without leave")
	}
	if stripped := regexp.MustCompile(`\x1b\[[0-9]+m`).ReplaceAllString(colored.String(), ""); stripped == colored.String() || stripped != plain.String() {
		t.Errorf("without its colours, the text is\n%s", stripped)
	}
}

func TestStatusOfATry(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*client.Error{
		"402 replayed": {HTTPStatus: 402, Reason: "CARD_DECLINED", Replayed: true},
		"502":          {HTTPStatus: 502},
		"Aborted":      {GRPCCode: codes.Aborted, Reason: "IDEMPOTENCY_KEY_IN_PROGRESS"},
		"no answer":    {Cause: errors.New("connection reset")},
		"time-out":     {Cause: fmt.Errorf("post: %w", context.DeadlineExceeded)},
		"left":         {Cause: context.Canceled},
	} {
		if got := statusOf(e); got != want {
			t.Errorf("%+v is told as %q, want %q", e, got, want)
		}
	}
}

func TestRepeatedAnswersAreToldOnce(t *testing.T) {
	t.Parallel()
	h := &hearing{}
	for _, text := range []string{"409", "409", "503", "409", "201"} {
		h.add(text)
	}
	if got, want := h.text(), "409 → 503 → 409 → 201"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLostLeaseIsReadFromTheLog(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`{"msg":"fenced: the lease was taken over, and the new holder's answer stands","lease":1,"lease_now":2}`:            true,
		`{"msg":"the key could not be released; its lease ends by itself","lease":1,"error":"release: the lease was lost"}`: true,
		`{"msg":"the key could not be released; its lease ends by itself","lease":1,"error":"release: connection refused"}`: false,
		`{"msg":"fenced: the lease was taken over, and the new holder still works","lease":2,"lease_now":3}`:                false,
		`{"msg":"request","code":"OK"}`: false,
		`no JSON`:                       false,
	} {
		if got := lostLease([]byte("{}\n" + line + "\n")); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
}

func TestScenariosHaveNamesOfTheirOwnThatMakeOrders(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, sc := range scenarios {
		order := "demo-0a1b2c-" + sc.name
		if seen[sc.name] || sc.title == "" || !regexp.MustCompile(`^[A-Za-z0-9._:/-]{1,64}$`).MatchString(order) {
			t.Errorf("scenario %q, title %q", sc.name, sc.title)
		}
		seen[sc.name] = true
	}
}
