package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

var sloExperiment = with(Experiment{
	Name:  "slo",
	Title: "A month of requests with incidents: what each spends of the error budget, and which alert would have fired when",
	Shows: `An objective of 99.5 % leaves 0.5 % of a month's requests to fail: the error budget. How many times faster than that
they fail is the burn rate. Each of four alerts watches a long window, which says that enough was spent to be worth a person's
time, and a short one, which says that it goes on; the faster the budget burns, the sooner one of them fires. An alert on a plain
error rate fires on every deployment, which spends next to nothing, and never on a small leak of four days, which spends a fifth
of the month's budget. What it has for itself is that it is quick: an alert that weighs cost has to let some be spent first.`,
	Bound: time.Minute,
	Code:  []string{"internal/lab/sloalerts.go", "internal/lab/slomonth.go"},
}, sloDefault, sloDefault, runSLO)

// sloDefault is the document's objective. The traffic and the incidents are made up.
var sloDefault = sloNumbers{Objective: 9950, PerMinute: 2000, Baseline: 300, Threshold: 20, ThresholdFor: 5}

// sloNumbers are the objective, the traffic, and the alert on a plain error rate.
type sloNumbers struct {
	Objective    int64 `help:"Requests out of 10,000 that must succeed." max:"9999"`
	PerMinute    int64 `help:"Requests in the busiest minute of a day." min:"5" max:"100000"`
	Baseline     int64 `help:"Requests out of a million that fail on any day." max:"100000"`
	Threshold    int64 `help:"The error rate, out of 1,000, above which the plain alert fires." max:"1000"`
	ThresholdFor int   `help:"The minutes over which it is taken." max:"1440"`
}

func runSLO(_ context.Context, _ Env, o Options, n sloNumbers) (Report, error) {
	m := newMonth(n, rand.New(rand.NewPCG(o.Seed, 0)))
	burning := burnAlerts(n.Objective)
	plain := alert{name: fmt.Sprintf("error rate > %s over %d min", percentOf(n.Threshold, 1000), n.ThresholdFor),
		long: n.ThresholdFor, short: n.ThresholdFor, num: n.Threshold, den: 1000}
	r := sloResult{sloNumbers: n, month: m, burning: burning, plain: plain, fired: map[string][]int{}}
	for _, a := range append(burning, plain) {
		r.fired[a.name] = a.firings(m)
	}
	return r.report(), nil
}
