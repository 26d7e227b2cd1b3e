package gatewaysim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Duration is a [time.Duration] that JSON and flags write as text: "1.5s".
type Duration time.Duration

// unreadable stands for a duration that was no duration. encoding/json would not say which field held it; validation does.
const unreadable = Duration(math.MinInt64)

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts anything; [Faults.Validate] refuses what is no duration.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		*d = unreadable
		return nil
	}
	*d = Duration(v)
	return nil
}

type distribution string

const (
	fixed     distribution = "fixed"
	uniform   distribution = "uniform"
	lognormal distribution = "lognormal"
)

// Latency is a distribution of durations. The zero value is no latency. Its text forms, in JSON and flags, are
//
//	fixed 50ms
//	uniform 10ms 100ms
//	lognormal p50 80ms p99.9 1.2s
type Latency struct {
	distribution distribution
	a, b         time.Duration // fixed: a; uniform: from a to b; lognormal: a the median, b the 99.9th percentile
	text         string        // what could not be read, when nothing of the above
}

// Fixed is always d.
func Fixed(d time.Duration) Latency { return Latency{distribution: fixed, a: d} }

// Uniform is anything from low to high, all alike.
func Uniform(low, high time.Duration) Latency { return Latency{distribution: uniform, a: low, b: high} }

// Lognormal is the log-normal distribution with that median and that 99.9th percentile: many short, a few very long.
func Lognormal(p50, p999 time.Duration) Latency {
	return Latency{distribution: lognormal, a: p50, b: p999}
}

// IsZero reports whether l is no latency at all.
func (l Latency) IsZero() bool { return l == Latency{} }

// String gives the text form.
func (l Latency) String() string {
	switch l.distribution {
	case fixed:
		return fmt.Sprintf("fixed %v", l.a)
	case uniform:
		return fmt.Sprintf("uniform %v %v", l.a, l.b)
	case lognormal:
		return fmt.Sprintf("lognormal p50 %v p99.9 %v", l.a, l.b)
	}
	return l.text
}

// MarshalText implements [encoding.TextMarshaler].
func (l Latency) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. It accepts anything; [Latency.Validate] refuses what is none of the
// text forms.
func (l *Latency) UnmarshalText(text []byte) error {
	*l = Latency{text: string(text)}
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return nil
	}
	var durations []time.Duration
	for _, word := range words[1:] {
		if d, err := time.ParseDuration(word); err == nil {
			durations = append(durations, d)
		}
	}
	form := distribution(words[0])
	switch {
	case form == fixed && len(words) == 2 && len(durations) == 1:
		*l = Fixed(durations[0])
	case form == uniform && len(words) == 3 && len(durations) == 2:
		*l = Uniform(durations[0], durations[1])
	case form == lognormal && len(words) == 5 && len(durations) == 2 && words[1] == "p50" && words[3] == "p99.9":
		*l = Lognormal(durations[0], durations[1])
	}
	return nil
}

// Validate says what is wrong with l, if anything.
func (l Latency) Validate() error {
	switch {
	case l.IsZero():
		return nil
	case l.distribution == "":
		return fmt.Errorf(`%q is not "fixed D", "uniform D D" or "lognormal p50 D p99.9 D"`, l.text)
	case l.a < 0 || l.b < 0:
		return fmt.Errorf("%q has a negative duration", l)
	case l.a > maxLatency || l.b > maxLatency:
		return fmt.Errorf("%q is longer than %v", l, maxLatency)
	case l.distribution != fixed && l.b < l.a, l.distribution == lognormal && l.a == 0:
		return fmt.Errorf("%q does not grow", l)
	}
	return nil
}

// z999 is the 99.9th percentile of the standard normal distribution.
const z999 = 3.0902323061678132

// draw takes one duration from the distribution.
func (l Latency) draw(random *rand.Rand) time.Duration {
	switch l.distribution {
	case fixed:
		return l.a
	case uniform:
		return l.a + time.Duration(random.Int64N(int64(l.b-l.a)+1))
	case lognormal:
		sigma := math.Log(float64(l.b)/float64(l.a)) / z999
		d := float64(l.a) * math.Exp(sigma*random.NormFloat64())
		return time.Duration(min(d, float64(maxLatency)))
	}
	return 0
}

// maxLatency bounds every latency, and cuts the endless tail of a log-normal distribution.
const maxLatency = time.Hour
