package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Experiment is one thing that the lab can show.
type Experiment struct {
	// Name is what the command line calls it.
	Name string
	// Title says in one line what is done.
	Title string
	// Shows says in a few sentences what is to be seen in the figures, and why it is so.
	Shows string
	// Proof says that the experiment belongs to `lab proof`: its bounds are promises of the service.
	Proof bool
	// Ours says that no document has it: it is none of those of [Documents].
	Ours bool
	// Bound is the most time that it may take at full size.
	Bound time.Duration
	// Code names the files of this repository that the experiment explains, best first.
	Code []string
	// Numbers are the experiment's own, for `lab run NAME --help`; nil: it has none. See [with].
	Numbers *Numbers
	// Run makes it. The error says that it could not be made; a bound that was missed is a [Check] in the report.
	Run func(context.Context, Env, Options) (Report, error)
}

// Numbers are what an experiment can be made with: structs of one type, whose exported fields carry kong tags (help) and are
// flags of `lab run NAME`. A flag takes no negative number, no zero unless the field is a share (a float), and no count above
// a million; where that does not fit, the tags min and max say what does. A method Validate() error may demand more.
type Numbers struct {
	// Full is the document's size, Small that of the tests. Run takes Full, Small, or what [Options.Numbers] holds.
	Full, Small any
}

// with completes an experiment by its numbers and by how it is made with them.
func with[N any](e Experiment, full, small N, run func(context.Context, Env, Options, N) (Report, error)) Experiment {
	e.Numbers = &Numbers{Full: full, Small: small}
	e.Run = func(ctx context.Context, env Env, o Options) (Report, error) {
		n := pick(o, full, small)
		if o.Numbers != nil {
			own, ok := o.Numbers.(N)
			if !ok {
				return Report{}, fmt.Errorf("%s: its numbers are a %T, not a %T", e.Name, n, o.Numbers)
			}
			n = own
		}
		if v, ok := any(n).(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return Report{}, fmt.Errorf("%s: %w", e.Name, err)
			}
		}
		return run(ctx, env, o, n)
	}
	return e
}

// Options are what all experiments have in common.
type Options struct {
	// Small makes an experiment short: a few seconds, and too little load for its bounds on time to mean anything.
	Small bool
	// Seed makes the PSP's dice repeatable. What depends on the order in which requests arrive still differs between runs.
	Seed uint64
	// Timed says that bounds on time bind too: those of the proof, at full size. Else they are shown, and fail nothing.
	Timed bool
	// Numbers replaces the experiment's own, by a value of the type of its [Numbers]; nil: they stay as they are.
	Numbers any
}

// pick returns the numbers of an experiment for the size that was asked for.
func pick[T any](o Options, full, small T) T {
	if o.Small {
		return small
	}
	return full
}

// All returns the experiments, in the order in which they are best read.
func All() []Experiment {
	return []Experiment{unknownResultExperiment, doubleClickExperiment, staleHolderExperiment, retryStormExperiment, wavesExperiment,
		amplificationExperiment, breakerExperiment, healthySlowExperiment, fallbackExperiment, bulkheadExperiment, consumerExperiment,
		deadlineExperiment, phiExperiment, membershipExperiment, sloExperiment, lostAnswersExperiment, gapsExperiment, timeoutExperiment}
}

// Documents returns the experiments that the documents have.
func Documents() []Experiment {
	return slices.DeleteFunc(All(), func(e Experiment) bool { return e.Ours })
}

// Proof returns the experiments of the proof; or, with a name, that one of them.
func Proof(only string) ([]Experiment, error) {
	var out []Experiment
	var names []string
	for _, e := range All() {
		if !e.Proof {
			continue
		}
		names = append(names, e.Name)
		if only == "" || only == e.Name {
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the proof has no experiment %q; it has %s", only, strings.Join(names, ", "))
	}
	return out, nil
}
