package lab

import (
	"context"
	"fmt"
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
	// Bound is the most time that it may take at full size.
	Bound time.Duration
	// Run makes it. The error says that it could not be made; a bound that was missed is a [Check] in the report.
	Run func(context.Context, Env, Options) (Report, error)
}

// Options are what all experiments have in common.
type Options struct {
	// Small makes an experiment short: a few seconds, and too little load for its bounds on time to mean anything.
	Small bool
	// Seed makes the PSP's dice repeatable. What depends on the order in which requests arrive still differs between runs.
	Seed uint64
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
	return []Experiment{breakerExperiment, healthySlowExperiment, amplificationExperiment, bulkheadExperiment,
		deadlineExperiment, lostAnswersExperiment, gapsExperiment, DefaultTimeoutMeasurement().Experiment()}
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
