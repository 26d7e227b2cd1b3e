package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	experiment "chargeonce/internal/lab"
)

// parsed reads a command line as main does, and returns the experiment's command and its flags.
func parsed(t *testing.T, options []kong.Option, args ...string) (*experimentCmd, []*kong.Flag, error) {
	t.Helper()
	k, err := kong.New(&cli{}, options...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := k.Parse(args)
	if err != nil {
		return nil, nil, err
	}
	c, ok := ctx.Selected().Target.Addr().Interface().(*experimentCmd)
	if !ok {
		t.Fatalf("%v is a %s", args, ctx.Selected().Target.Type())
	}
	return c, ctx.Selected().Flags, nil
}

func TestNumbersOfEachExperimentAreFlags(t *testing.T) {
	t.Parallel()
	for _, e := range experiment.All() {
		if e.Numbers == nil {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []struct {
				args []string
				want any
			}{{nil, e.Numbers.Full}, {[]string{"--small"}, e.Numbers.Small}} {
				c, flags, err := parsed(t, experimentCommands(), append([]string{"run", e.Name}, size.args...)...)
				if err != nil {
					t.Fatal(err)
				}
				if got := value(c.Numbers); !reflect.DeepEqual(got, size.want) {
					t.Errorf("%v: %+v, want %+v", size.args, got, size.want)
				}
				if fields := reflect.VisibleFields(reflect.TypeOf(size.want)); len(own(flags, c.Numbers)) == 0 && len(fields) > 0 {
					t.Error("none of its numbers is a flag")
				}
				for _, f := range own(flags, c.Numbers) {
					if f.Help == "" {
						t.Errorf("--%s has no help", f.Name)
					}
				}
			}
		})
	}
}

func TestBadNumbersAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, e := range experiment.All() {
		if e.Numbers == nil {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			c, flags, err := parsed(t, experimentCommands(), "run", e.Name)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range own(flags, c.Numbers) {
				bad := "-1"
				switch f.Target.Interface().(type) {
				case time.Duration, []time.Duration:
					bad = "-1ms"
				case string, bool, []string:
					continue
				}
				_, _, err := parsed(t, experimentCommands(), "run", e.Name, "--"+f.Name+"="+bad)
				if err == nil || !strings.Contains(err.Error(), "--"+f.Name) {
					t.Errorf("--%s=%s: %v", f.Name, bad, err)
				}
			}
		})
	}
}

// sized are numbers of every kind.
type sized struct {
	Clients  int             `help:"Clients."`
	Tries    uint            `help:"Tries." max:"5"`
	Offset   int             `help:"Offset." min:"-3"`
	Outage   time.Duration   `help:"Outage."`
	Wait     time.Duration   `help:"Wait." min:"0s" max:"1m"`
	Loss     float64         `help:"Loss." max:"1"`
	Factor   float64         `help:"Factor."`
	Nodes    []int           `help:"Nodes."`
	Steps    []time.Duration `help:"Steps."`
	Way      string          `help:"Way."`
	internal string
}

func (s sized) Validate() error {
	if s.Way == "none" {
		return errors.New("--way none: want a way")
	}
	return nil
}

func TestNumbersAreHeldToTheirLimits(t *testing.T) {
	t.Parallel()
	full := sized{Clients: 500, Tries: 3, Outage: time.Second, Loss: 0.05, Nodes: []int{10, 30}, Steps: []time.Duration{time.Second},
		Way: "full jitter, 1.5", internal: "full"}
	small := full
	small.Clients, small.Nodes, small.internal = 5, []int{3}, "small"
	tests := []struct {
		args []string
		says string
		want func(*sized)
	}{
		{args: nil},
		{args: []string{"--clients=7", "--nodes=1,2", "--wait=0s", "--loss=0"},
			want: func(s *sized) { s.Clients, s.Nodes, s.Loss = 7, []int{1, 2}, 0 }},
		{args: []string{"--small", "--loss=1"}, want: func(s *sized) { *s = small; s.Loss = 1 }},
		{args: []string{"--clients=7", "--small"}, want: func(s *sized) { *s = small; s.Clients = 7 }},
		{args: []string{"--small=false"}},
		{args: []string{"--offset=-3"}, want: func(s *sized) { s.Offset = -3 }},
		{args: []string{"--clients=0"}, says: "run sized: --clients 0: want 1 to 1000000"},
		{args: []string{"--small", "--clients=0"}, says: "run sized: --clients 0: want 1 to 1000000"},
		{args: []string{"--clients=1000001"}, says: "run sized: --clients 1000001: want 1 to 1000000"},
		{args: []string{"--tries=6"}, says: "run sized: --tries 6: want 1 to 5"},
		{args: []string{"--offset=-4"}, says: "run sized: --offset -4: want -3 to 1000000"},
		{args: []string{"--outage=0s"}, says: "run sized: --outage 0s: want more than 0s"},
		{args: []string{"--wait=2m"}, says: "run sized: --wait 2m0s: want at least 0s and at most 1m0s"},
		{args: []string{"--loss=1.5"}, says: "run sized: --loss 1.5: want 0 to 1"},
		{args: []string{"--factor=-0.5"}, says: "run sized: --factor -0.5: want at least 0"},
		{args: []string{"--factor=NaN"}, says: "run sized: --factor NaN: want at least 0"},
		{args: []string{"--nodes=10,0"}, says: "run sized: --nodes 0: want 1 to 1000000"},
		{args: []string{"--steps=1s,-1s"}, says: "run sized: --steps -1s: want more than 0s"},
		{args: []string{"--way=none"}, says: "run sized: --way none: want a way"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			e := experiment.Experiment{Name: "sized", Numbers: &experiment.Numbers{Full: full, Small: small}}
			c, _, err := parsed(t, commandsOf([]experiment.Experiment{e}), append([]string{"run", "sized"}, tt.args...)...)
			if tt.says != "" {
				if err == nil || err.Error() != tt.says {
					t.Errorf("%v, want %q", err, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := full
			want.Nodes = slices.Clone(full.Nodes)
			if tt.want != nil {
				tt.want(&want)
			}
			if got := value(c.Numbers); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

func TestHelpShowsEachNumberWithItsDefault(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"run timeout --help":         "--calls=10000 ",
		"run timeout --small --help": "--calls=300 ",
		"run --help":                 "run timeout ",
		"--help":                     "run <command>\n",
	}
	for args, want := range tests {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			if out, code := lab(t, strings.Fields(args)...); code != 0 || !strings.Contains(out, want) {
				t.Errorf("exit status %d, want %q:\n%s", code, want, out)
			}
		})
	}
}

func TestRunThatCannotBeMadeIsAFailure(t *testing.T) {
	t.Parallel()
	nowhere := filepath.Join(t.TempDir(), "missing", "file")
	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"no such experiment":       {[]string{"run", "nope"}, 80, "unexpected argument nope"},
		"no calls":                 {[]string{"run", "timeout", "--calls", "0"}, 80, "run timeout: --calls 0: want 1 to 200000"},
		"no distribution":          {[]string{"run", "timeout", "--latency", "normal 1ms"}, 80, "run timeout: --latency: "},
		"no binary that it needs":  {[]string{"run", "timeout", "--small"}, 1, "timeout: there is no gateway-sim: "},
		"no binaries for all":      {[]string{"run", "all", "--small"}, 1, "lab: there is no chargeonce: "},
		"a plot nowhere":           {[]string{"run", "timeout", "--plot", nowhere}, 1, "lab: --plot: open "},
		"a page nowhere":           {[]string{"run", "all", "--html", nowhere}, 1, "lab: --html: open "},
		"links to a script":        {[]string{"run", "all", "--code-url", "javascript:alert(1)"}, 80, `--code-url "javascript:alert(1)": want http:// or https://`},
		"links to nowhere":         {[]string{"run", "all", "--code-url", "https:"}, 80, `--code-url "https:": want http:// or https://`},
		"a seed that is no number": {[]string{"run", "all", "--seed", "x"}, 80, "--seed: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, code := lab(t, tt.args...); code != tt.code || !strings.Contains(out, tt.says) {
				t.Errorf("exit status %d, want %d and %q:\n%s", code, tt.code, tt.says, out)
			}
		})
	}
}

func TestPageIsWrittenWhetherOrNotAllHolds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		check experiment.Check
		want  error
		says  string
	}{
		"it holds":          {experiment.Check{OK: true}, nil, ">holds</td>"},
		"it does not":       {experiment.Check{}, experiment.ErrMissed, ">1 of 1 missed</td>"},
		"a time is no word": {experiment.Check{Timed: true}, nil, ">holds</td>"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := experiment.Experiment{Name: "one", Bound: time.Minute, Code: []string{"a.go"},
				Run: func(context.Context, experiment.Env, experiment.Options) (experiment.Report, error) {
					return experiment.Report{Checks: []experiment.Check{tt.check}}, nil
				}}
			c := runAllCmd{HTML: filepath.Join(t.TempDir(), "page.html"), CodeURL: "https://git.example"}
			c.Seed = 7
			err := c.make(t.Context(), io.Discard, experiment.Env{}, []experiment.Experiment{e})
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			page, err := os.ReadFile(c.HTML)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{tt.says, "Seed 7.", `href="https://git.example/a.go"`} {
				if !strings.Contains(string(page), want) {
					t.Errorf("%q is missing:\n%s", want, page)
				}
			}
		})
	}
}

// TestPlotIsDrawnIntoItsFile makes an experiment that needs neither binaries nor MySQL.
func TestPlotIsDrawnIntoItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plot.svg")
	out, code := lab(t, "run", "waves", "--small", "--plot", file)
	if code != 0 || !strings.Contains(out, "Bounds missed: 0. Could not be made: 0.") {
		t.Fatalf("exit status %d:\n%s", code, out)
	}
	picture, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := picture.Close(); err != nil {
			t.Error(err)
		}
	}()
	elements := map[string]int{}
	for d := xml.NewDecoder(picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["svg"] != 1 || elements["title"] != 1 || elements["text"] == 0 {
		t.Errorf("it has %v", elements)
	}
}

func TestFileThatWasThereIsKeptUntilItIsWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", old, fresh} {
		if err := writable(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	if err := writable(dir); err == nil {
		t.Error("a folder is taken for a file")
	}
}
