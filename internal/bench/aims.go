package bench

import "fmt"

// Aim is a figure that the service is built to reach, as a ratio within one run, so that it can be compared between machines. That
// one is missed fails nothing.
type Aim struct {
	What    string `json:"what"`
	Want    string `json:"want"`
	Got     string `json:"got"`
	Reached bool   `json:"reached"`
}

// What is aimed at.
const (
	aimGRPC        = 2.5   // times the ceiling, coalesced, 128 in flight
	aimREST        = 1.8   // the same
	aimOverhead    = 0.7   // milliseconds over bare SQL and PSP, at one in flight
	aimFullTable   = 0.9   // throughput with the most keys over that with the fewest
	aimMemoryBytes = 120e6 // of the server at 512 in flight
)

// aims holds the report against what is aimed at. What was not measured is left out.
func aims(r Report) []Aim {
	var out []Aim
	atMost := func(what string, want, got float64, unit string) {
		out = append(out, Aim{what, fmt.Sprintf("≤ %.2f%s", want, unit), fmt.Sprintf("%.2f%s", got, unit), got <= want})
	}
	atLeast := func(what string, want, got float64) {
		out = append(out, Aim{what, fmt.Sprintf("≥ %.2f", want), fmt.Sprintf("%.2f", got), got >= want})
	}
	for _, face := range []struct {
		face Face
		aim  float64
	}{{GRPC, aimGRPC}, {REST, aimREST}} {
		f := Form{face.face, true}
		if got, ok := r.at(f, 128); ok && got.Ratio > 0 {
			atLeast(fmt.Sprintf("%s, 128 in flight: throughput over that of the bare SQL", f), face.aim, got.Ratio)
		}
		one, ok := r.at(f, 1)
		bare, okBare := r.at(Form{Face: BareSQL}, 1)
		if ok && okBare && len(r.PSPAlone) > 0 && r.PSPAlone[0].PSPMillis == 0 {
			want := bare.Closed.P50 + r.PSPAlone[0].P50 + aimOverhead
			atMost(fmt.Sprintf("%s, 1 in flight: p50, against bare SQL + PSP + %.1f ms", f, aimOverhead), want, one.Closed.P50, " ms")
		}
		many, ok := r.at(f, 64)
		bare, okBare = r.at(Form{Face: BareSQL}, 64)
		if ok && okBare {
			atMost(fmt.Sprintf("%s, 64 in flight: p99, against that of the bare SQL", f), bare.Closed.P99, many.Closed.P99, " ms")
		}
		if few, most, ok := r.stocks(f); ok {
			atLeast(fmt.Sprintf("%s: throughput with %d keys over that with %d", f, most.Keys, few.Keys), aimFullTable,
				most.Payments.PerSecond/few.Payments.PerSecond)
		}
		if got, ok := r.at(f, 512); ok && got.PeakBytes > 0 {
			atMost(fmt.Sprintf("%s, 512 in flight: most memory of the server", f), aimMemoryBytes/1e6, float64(got.PeakBytes)/1e6, " MB")
		}
	}
	return out
}

// at finds what a form came to with a PSP that answers at once and no webhooks.
func (r Report) at(f Form, n int) (Result, bool) {
	for _, got := range r.Results {
		if got.form() == f && got.InFlight == n && got.condition() == (Condition{}) {
			return got, true
		}
	}
	return Result{}, false
}

// stocks finds what a form came to with the fewest and with the most keys.
func (r Report) stocks(f Form) (few, most Stock, ok bool) {
	for _, s := range r.Stocks {
		if s.form() != f {
			continue
		}
		if few.Keys == 0 || s.Keys < few.Keys {
			few = s
		}
		if s.Keys > most.Keys {
			most = s
		}
	}
	return few, most, few.Keys < most.Keys && few.Payments.PerSecond > 0
}
