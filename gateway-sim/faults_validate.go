package gatewaysim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Validate returns a [*FieldError] for the first field that is out of its range or belongs to another fault, nil if none is.
func (f Faults) Validate() error {
	if err := f.Latency.Validate(); err != nil {
		return &FieldError{"latency", err.Error()}
	}
	for i, rule := range f.Rules {
		if field, problem := rule.problem(); problem != "" {
			return &FieldError{fmt.Sprintf("rules[%d].%s", i, field), problem}
		}
	}
	if field, problem := f.Webhooks.problem(); problem != "" {
		return &FieldError{"webhooks." + field, problem}
	}
	return nil
}

var (
	allFaults = []Fault{Hang, ErrorAnswer, DropConnection, SlowAnswer, LoseAnswer, WrongAmount, WrongCurrency, WrongKey}
	allHows   = []How{"", LostByDrop, LostByHang, LostByError, LostByCut, LostByProxy, LostByGarbage}
)

const (
	outOfShare  = "is not a share from 0 to 1"
	negative    = "is negative"
	notDuration = `is not a duration like "1.5s"`
)

// problem returns the first field that is wrong, and why.
func (r Rule) problem() (field, problem string) {
	withStatus := r.Fault == ErrorAnswer || (r.Fault == LoseAnswer && (r.How == LostByError || r.How == LostByProxy))
	withRetryAfter := r.Fault == ErrorAnswer || (r.Fault == LoseAnswer && r.How == LostByError)
	switch {
	case !slices.Contains(allFaults, r.Fault):
		return "fault", fmt.Sprintf("%q is none of %q", r.Fault, allFaults)
	case !slices.Contains(allHows, r.How):
		return "how", fmt.Sprintf("%q is none of %q", r.How, allHows[1:])
	case r.How != "" && r.Fault != LoseAnswer:
		return "how", "is for lose_answer alone"
	case r.Rate != nil && !isShare(*r.Rate):
		return "rate", outOfShare
	case r.Skip < 0:
		return "skip", negative
	case r.Count < 0:
		return "count", negative
	case r.Status != 0 && !withStatus:
		return "status", "this fault sends no status of its own"
	case r.Status != 0 && (r.Status < http.StatusBadRequest || r.Status > 599):
		return "status", "is not from 400 to 599"
	case r.RetryAfter != 0 && !withRetryAfter:
		return "retry_after", "this fault sends no Retry-After"
	case r.RetryAfterDate && r.RetryAfter == 0:
		return "retry_after_date", "is set without retry_after"
	case r.Fault == SlowAnswer && r.Latency.IsZero():
		return "latency", "is missing"
	case r.Fault != SlowAnswer && !r.Latency.IsZero():
		return "latency", "is for the fault latency alone"
	case r.Match.Path != "" && !strings.HasPrefix(r.Match.Path, "/"):
		return "match.path", `does not begin with "/"`
	case r.Match.Exact && r.Match.Path == "":
		return "match.exact", "is set without path"
	}
	if err := r.Latency.Validate(); err != nil {
		return "latency", err.Error()
	}
	return firstProblem(durationField{"retry_after", r.RetryAfter}, durationField{"after", r.After}, durationField{"for", r.For})
}

// problem returns the first field that is wrong, and why. Whether SignWith points to a secret only [Sim.SetFaults] knows.
func (w WebhookFaults) problem() (field, problem string) {
	switch {
	case w.Repeat < 0:
		return "repeat", negative
	case w.Repeat > maxRepeat:
		return "repeat", fmt.Sprintf("is more than %d", maxRepeat)
	case !isShare(w.DropRate):
		return "drop_rate", outOfShare
	case !isShare(w.BadSignatureRate):
		return "bad_signature_rate", outOfShare
	}
	return firstProblem(durationField{"delay", w.Delay}, durationField{"shuffle", w.Shuffle},
		durationField{"after", w.After}, durationField{"for", w.For})
}

// maxRepeat bounds the extra deliveries of one event.
const maxRepeat = 100

// maxDuration keeps sums of durations within their type.
const maxDuration = Duration(365 * 24 * time.Hour)

// isShare is false for NaN too.
func isShare(f float64) bool { return f >= 0 && f <= 1 }

type durationField struct {
	name  string
	value Duration
}

func firstProblem(fields ...durationField) (field, problem string) {
	for _, f := range fields {
		switch {
		case f.value == unreadable:
			return f.name, notDuration
		case f.value < 0:
			return f.name, negative
		case f.value > maxDuration:
			return f.name, "is longer than a year"
		}
	}
	return "", ""
}
