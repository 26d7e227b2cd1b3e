package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"chargeonce/internal/telemetry"
)

// doctorCmd checks what serve would run on, with serve's own flags and environment.
type doctorCmd struct {
	Output       string        `default:"table" enum:"table,json" help:"table or json."`
	CheckTimeout time.Duration `default:"5s" help:"Bounds each check."`
	AdminURL     string        `name:"admin-url" placeholder:"URL" help:"The admin port of a server that has taken payments, such as http://127.0.0.1:9091: the slow mark is held against the p99 that it measured."`

	TLS       tlsFlags       `embed:"" prefix:"tls-"`
	PageToken pageTokenFlags `embed:"" prefix:"page-token-"`
	PSP       pspFlags       `embed:"" prefix:"psp-"`
	Webhook   webhookFlags   `embed:"" prefix:"webhook-"`
}

// What doctor ends with, besides 0.
const (
	exitCheckFailed = 1
	exitCouldNotRun = 2
)

// Run makes every check and prints a line for each.
func (c doctorCmd) Run(ctx context.Context, g *globals, _ *telemetry.Telemetry) error {
	d := &doctor{doctorCmd: c, mysql: g.MySQL, now: time.Now}
	d.examine(ctx)
	if err := ctx.Err(); err != nil {
		return &statusError{code: exitCouldNotRun, err: fmt.Errorf("stopped before the last check: %w", err)}
	}
	if err := d.print(os.Stdout); err != nil {
		return &statusError{code: exitCouldNotRun, err: err}
	}
	if n := d.count(fail); n > 0 {
		return &statusError{code: exitCheckFailed, err: fmt.Errorf("%d of %d checks failed", n, len(d.findings))}
	}
	return nil
}

// status is how a check ended.
type status string

const (
	ok   status = "ok"
	warn status = "warn" // it works, and should not stay so
	fail status = "fail" // it does not work, or breaks a promise
)

// finding is what a check found.
type finding struct {
	Check  string `json:"check"`
	Status status `json:"status"`
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"` // what to do; empty if ok
}

func fine(found string, args ...any) finding {
	return finding{Status: ok, Found: fmt.Sprintf(found, args...)}
}

// doubt and fault want fix to say what to do.
func doubt(fix, found string, args ...any) finding {
	return finding{Status: warn, Found: fmt.Sprintf(found, args...), Fix: fix}
}

func fault(fix, found string, args ...any) finding {
	return finding{Status: fail, Found: fmt.Sprintf(found, args...), Fix: fix}
}

// doctor makes the checks, in order, and keeps what they find.
type doctor struct {
	doctorCmd
	mysql    mysqlFlags
	now      func() time.Time
	findings []finding
}

// quiet is for what would log what a check says.
var quiet = slog.New(slog.DiscardHandler)

func (d *doctor) examine(ctx context.Context) {
	d.database(ctx)
	d.provider(ctx)
	d.check(ctx, "webhook secret", d.webhookSecret)
	d.check(ctx, "page token key", d.pageTokenKey)
	d.certificates(ctx)
}

// check makes one check, bounded in time.
func (d *doctor) check(ctx context.Context, name string, do func(context.Context) finding) finding {
	ctx, cancel := context.WithTimeout(ctx, d.CheckTimeout)
	defer cancel()
	f := do(ctx)
	f.Check = name
	d.findings = append(d.findings, f)
	return f
}

// unchecked tells of checks that need what is not there.
func (d *doctor) unchecked(why string, names ...string) {
	for _, name := range names {
		d.findings = append(d.findings, finding{Check: name, Status: warn, Found: "not checked: " + why, Fix: "mend what failed above first"})
	}
}

func (d *doctor) count(s status) int {
	n := 0
	for _, f := range d.findings {
		if f.Status == s {
			n++
		}
	}
	return n
}

// print writes the findings. A fix stands on the line of its check.
func (d *doctor) print(to io.Writer) error {
	if d.Output == "json" {
		enc := json.NewEncoder(to)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Failed int       `json:"failed"`
			Warned int       `json:"warned"`
			Checks []finding `json:"checks"`
		}{d.count(fail), d.count(warn), d.findings})
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, f := range d.findings {
		mark := string(f.Status)
		if f.Status == fail {
			mark = "FAIL"
		}
		line := strings.ReplaceAll(f.Found, "\n", "; ")
		if f.Fix != "" {
			line += " → " + f.Fix
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", mark, f.Check, line); err != nil {
			return err
		}
	}
	return w.Flush()
}
