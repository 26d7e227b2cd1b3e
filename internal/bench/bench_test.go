package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func tinyPlan() Plan {
	return Plan{
		Forms:      []Form{{BareSQL, false}, {GRPC, true}, {REST, false}},
		Conditions: []Condition{{PSPLatency: 5 * time.Millisecond, Webhooks: true}},
		InFlight:   []int{4},
		Closed:     200 * time.Millisecond, Open: 200 * time.Millisecond,
		Keys: []int{500}, KeysInFlight: 4,
	}
}

func TestRunCountsEveryPaymentAndItsBooksAgree(t *testing.T) {
	t.Parallel()
	profiles := t.TempDir()
	var out, terminal bytes.Buffer
	r, err := Run(t.Context(), Options{ChargeOnce: chargeonce, GatewaySim: gatewaySim, Plan: tinyPlan(), Out: &out, Bar: &terminal,
		ProfileDir: profiles, ProfileAt: 4})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if len(r.Results) != 3 || len(r.Stocks) != 3 || len(r.PSPAlone) != 1 {
		t.Fatalf("%d results, %d stocks, %d of the PSP alone; want 3, 3, 1", len(r.Results), len(r.Stocks), len(r.PSPAlone))
	}
	// On a busy machine a window may see no payment end: so this asks for times, which every worker has one of, and not for rates.
	for _, got := range r.Results {
		if got.Closed.P50 <= 0 || got.Closed.P50 > got.Closed.P999 || got.OpenRate*tinyPlan().Open.Seconds() >= 1 && got.Open.P50 <= 0 {
			t.Errorf("%s: a figure is missing: %+v", got.form(), got)
		}
		if measured := got.Closed.PerSecond * tinyPlan().Closed.Seconds(); got.Books.Payments < 4 || float64(got.Books.Payments) < measured {
			t.Errorf("%s: %d payments in the books, %.0f measured", got.form(), got.Books.Payments, measured)
		}
		if got.Face != BareSQL && got.Closed.P50 < 5 {
			t.Errorf("%s: p50 %.2f ms, and the PSP alone takes 5 ms", got.form(), got.Closed.P50)
		}
	}
	for _, got := range r.Stocks {
		if got.Books.Payments < 4 || got.Payments.P50 <= 0 || got.Face != BareSQL && (got.Replays.P50 <= 0 || got.Conflict.P50 <= 0) {
			t.Errorf("%s: a figure is missing: %+v", got.form(), got)
		}
	}
	for _, file := range []string{"grpc-coalesced-4-psp5ms-webhooks.cpu.pprof", "rest-4-psp5ms-webhooks.allocs.pprof"} {
		if info, err := os.Stat(filepath.Join(profiles, file)); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v", file, err)
		}
	}
	if !strings.Contains(terminal.String(), "REST, 500 keys in the table") {
		t.Errorf("the bar never says what is done: %q", &terminal)
	}
	if text, err := json.Marshal(r); err != nil || !bytes.Contains(text, []byte(`"times_ceiling"`)) {
		t.Errorf("JSON: %v\n%s", err, text)
	}
}

func TestBooksThatDoNotAgreeAreAnError(t *testing.T) {
	t.Parallel()
	if err := agree(3, rows{done: 3, payments: 3, events: 1}, 3); err != nil {
		t.Errorf("all agree, and it says %v", err)
	}
	for name, err := range map[string]error{
		"a payment row too few":  agree(3, rows{done: 3, payments: 2}, 3),
		"a payment row too many": agree(3, rows{done: 3, payments: 4}, 3),
		"a key left open":        agree(3, rows{done: 2, payments: 3}, 3),
		"a second charge":        agree(3, rows{done: 3, payments: 3}, 4),
		"one who was not told":   agree(2, rows{done: 3, payments: 3}, 3),
	} {
		if !errors.Is(err, ErrWrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// space is what may differ between the service's statements and the ceiling's.
var space = regexp.MustCompile(`\s+`)

func TestCeilingRunsTheStatementsOfTheService(t *testing.T) {
	t.Parallel()
	source := ""
	for _, file := range []string{"../idempotency/insert.go", "../idempotency/store.go", "../payment/store.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	source = space.ReplaceAllString(source, " ")
	for _, statement := range []string{claimSQL, finishSQL, paymentSQL} {
		want := []string{space.ReplaceAllString(statement, " ") + "`"}
		if head, row, ok := strings.Cut(want[0], "VALUES "); ok {
			want = []string{head + "VALUES `", "`" + row} // the service has an insert in two parts, to repeat the second
		}
		if slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(source, part) }) {
			t.Errorf("the service has no such statement:%s", statement)
		}
	}
}

func TestPlotIsWellFormedAndHasAPanelForEachConditionAndALineForEachForm(t *testing.T) {
	t.Parallel()
	var r Report
	for _, c := range []Condition{{}, {PSPLatency: 80 * time.Millisecond, Webhooks: true}} {
		for i, f := range allForms() {
			for _, n := range []int{1, 64, 512} {
				r.Results = append(r.Results, Result{Where: where(f, c, n), Closed: Rate{PerSecond: float64(1000*i + n)}})
			}
		}
	}
	r.Results = slices.Delete(r.Results, 1, 2) // one that was not measured leaves a gap
	for name, tt := range map[string]struct {
		report        Report
		panels, lines int
	}{"two conditions": {r, 2, 10}, "nothing measured": {Report{}, 0, 0}} {
		text := Plot(tt.report)
		panels, lines := 0, 0
		for dec := xml.NewDecoder(bytes.NewReader(text)); ; {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if e, ok := token.(xml.StartElement); ok {
				switch e.Name.Local {
				case "g":
					panels++
				case "polyline":
					lines++
				}
			}
		}
		if panels != tt.panels || lines != tt.lines || bytes.Contains(text, []byte("NaN")) {
			t.Errorf("%s: %d panels and %d lines, want %d and %d\n%s", name, panels, lines, tt.panels, tt.lines, text)
		}
	}
}

func TestAimsAreHeldAgainstWhatWasMeasured(t *testing.T) {
	t.Parallel()
	at := func(f Form, n int, ratio, p50, p99 float64) Result {
		return Result{Where: where(f, Condition{}, n), Ratio: ratio, Closed: Rate{Quantiles: Quantiles{P50: p50, P99: p99}}}
	}
	bare, grpc := Form{BareSQL, false}, Form{GRPC, true}
	r := Report{
		PSPAlone: []PSPAlone{{Quantiles: Quantiles{P50: 0.2}}},
		Results: []Result{at(bare, 1, 1, 1, 2), at(grpc, 1, 1, 1.95, 3), at(bare, 64, 1, 20, 40), at(grpc, 64, 3, 10, 39.9),
			at(grpc, 128, 2.4, 10, 20)},
		Stocks: []Stock{{Where: where(grpc, Condition{}, 128), Keys: 10, Payments: Rate{PerSecond: 100}},
			{Where: where(grpc, Condition{}, 128), Keys: 1000, Payments: Rate{PerSecond: 90}}},
	}
	got := map[string]bool{}
	for _, a := range aims(r) {
		got[a.What] = a.Reached
	}
	for what, reached := range map[string]bool{
		"gRPC coalesced, 128 in flight: throughput over that of the bare SQL": false,
		"gRPC coalesced, 1 in flight: p50, against bare SQL + PSP + 0.7 ms":   false, // 1.95 ms > 1 + 0.2 + 0.7
		"gRPC coalesced, 64 in flight: p99, against that of the bare SQL":     true,
		"gRPC coalesced: throughput with 1000 keys over that with 10":         true,
		"REST coalesced, 128 in flight: throughput over that of the bare SQL": false,
		"gRPC coalesced, 512 in flight: most memory of the server":            false,
	} {
		if got[what] != reached {
			t.Errorf("%s: reached %v, want %v", what, got[what], reached)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d aims, want the 4 that were measured: %v", len(got), got)
	}
}
