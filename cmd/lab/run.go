package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	experiment "chargeonce/internal/lab"
)

// runCmd has one command for each experiment (see [experimentCommands]), and one for all.
type runCmd struct {
	All runAllCmd `cmd:"" help:"Make every experiment of the documents, one after another. Exit status 1 if one does not show what its document teaches."`
}

// experimentCmd makes one experiment.
type experimentCmd struct {
	labFlags

	Small bool   `help:"Begin with the numbers of the tests: a few seconds."`
	Plot  string `placeholder:"FILE.svg" type:"path" help:"Draw the figures into this file."`

	// Numbers points to a copy of the experiment's own, if it has any.
	Numbers any `embed:"" group:"Its own numbers:"`

	experiment experiment.Experiment
}

// experimentCommands are a command of `lab run` for each experiment, with its numbers as flags.
func experimentCommands() []kong.Option { return commandsOf(experiment.All()) }

func commandsOf(all []experiment.Experiment) []kong.Option {
	var options []kong.Option
	commands := map[string]*experimentCmd{}
	for _, e := range all {
		c := &experimentCmd{experiment: e}
		if e.Numbers != nil {
			c.Numbers = clone(e.Numbers.Full)
		}
		commands[e.Name] = c
		options = append(options, kong.DynamicCommand(e.Name, e.Title, "", c))
	}
	return append(options, kong.PostBuild(func(k *kong.Kong) error { return underRun(k.Model.Node, commands) }))
}

// underRun moves the commands from the root, where kong puts them, to where they belong, and fills in their flags' defaults.
func underRun(root *kong.Node, commands map[string]*experimentCmd) error {
	var run *kong.Node
	var rest, moved []*kong.Node
	for _, n := range root.Children {
		c, ok := commands[n.Name]
		switch {
		case ok && n.Target.Addr().Interface() == any(c):
			moved = append(moved, n)
			if e := c.experiment; e.Numbers != nil {
				defaults(n.Flags, c.Numbers, e.Numbers.Full)
			}
			continue
		case n.Name == "run":
			run = n
		}
		rest = append(rest, n)
	}
	if run == nil {
		return errors.New("there is no command run")
	}
	for _, n := range moved {
		n.Parent = run
	}
	root.Children, run.Children = rest, append(run.Children, moved...)
	return nil
}

// BeforeReset makes the small numbers the defaults, if they are asked for.
func (c *experimentCmd) BeforeReset(ctx *kong.Context) error {
	if c.experiment.Numbers == nil {
		return nil
	}
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "small" && ctx.Value(p).Bool() {
			reflect.ValueOf(c.Numbers).Elem().Set(reflect.ValueOf(c.experiment.Numbers.Small)) // what is no flag, too
			defaults(ctx.Selected().Flags, c.Numbers, c.experiment.Numbers.Small)
		}
	}
	return nil
}

// Validate refuses numbers that the experiment cannot be made with.
func (c *experimentCmd) Validate(ctx *kong.Context) error {
	if c.Numbers == nil {
		return nil
	}
	return check(ctx.Selected().Flags, c.Numbers)
}

// Run makes the experiment.
func (c *experimentCmd) Run(ctx context.Context) error {
	if err := writable(c.Plot); err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	env, err := c.env()
	if err != nil {
		return err
	}
	o := experiment.Options{Small: c.Small, Seed: c.Seed}
	if c.Numbers != nil {
		o.Numbers = value(c.Numbers)
	}
	r := experiment.Runner{Out: os.Stdout, Terminal: terminal(os.Stderr), Env: env, Options: o}
	results, err := r.Run(ctx, []experiment.Experiment{c.experiment})
	if c.Plot == "" || len(results) == 0 || results[0].Err != nil {
		return err
	}
	picture, plotErr := experiment.SVG(results[0].Report.Plots...)
	if plotErr == nil {
		plotErr = os.WriteFile(c.Plot, picture, 0o644)
	}
	if plotErr != nil {
		plotErr = fmt.Errorf("--plot: %w", plotErr)
	}
	return errors.Join(err, plotErr)
}

type runAllCmd struct {
	labFlags

	Small   bool   `help:"Make each in a few seconds, with the numbers of the tests."`
	HTML    string `name:"html" placeholder:"FILE.html" type:"path" help:"Write a page with every table, plot and verdict to this file."`
	CodeURL string `name:"code-url" placeholder:"URL" help:"Where the repository's files can be read, for the page to link to, such as https://git.example/chargeonce/blob/main."`
}

// Validate refuses a URL that a page cannot link to.
func (c runAllCmd) Validate() error {
	if u, err := url.Parse(c.CodeURL); c.CodeURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		return fmt.Errorf("--code-url %q: want http:// or https://", c.CodeURL)
	}
	return nil
}

// Run makes them all.
func (c runAllCmd) Run(ctx context.Context) error {
	if err := writable(c.HTML); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	env, err := c.env()
	if err != nil {
		return err
	}
	if err := env.Check(); err != nil {
		return err
	}
	return c.make(ctx, os.Stdout, env, experiment.Documents())
}

// make writes the page too when a relation does not hold: it says so.
func (c runAllCmd) make(ctx context.Context, out io.Writer, env experiment.Env, todo []experiment.Experiment) error {
	began := time.Now()
	o := experiment.Options{Small: c.Small, Seed: c.Seed}
	r := experiment.Runner{Out: out, Terminal: terminal(os.Stderr), Env: env, Options: o}
	results, err := r.Run(ctx, todo)
	if c.HTML == "" || ctx.Err() != nil {
		return err
	}
	page := experiment.Page{Results: results, Options: o, Began: began, Took: time.Since(began), CodeURL: c.CodeURL}
	text, pageErr := page.HTML()
	if pageErr == nil {
		pageErr = os.WriteFile(c.HTML, text, 0o644)
	}
	if pageErr != nil {
		pageErr = fmt.Errorf("--html: %w", pageErr)
	}
	return errors.Join(err, pageErr)
}

type listCmd struct{}

// Run lists the experiments.
func (listCmd) Run() error { return experiment.List(os.Stdout) }
