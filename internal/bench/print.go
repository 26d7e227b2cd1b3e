package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// printer writes the report for a terminal, each row as soon as it is measured. The first error of the writer is kept in err, and
// nothing more is written.
type printer struct {
	w   io.Writer
	bar *bar
	err error
}

func (p *printer) say(format string, args ...any) {
	p.bar.clear()
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) head(r Report, plan Plan) {
	m := r.MySQL
	log := "no binary log"
	if m.BinaryLog {
		log = fmt.Sprintf("binary log with sync_binlog=%d", m.SyncBinaryLog)
	}
	p.say("MySQL %s: buffer pool %s, redo log %s, innodb_flush_log_at_trx_commit=%d, doublewrite %s, %s.\n",
		m.Version, size(m.BufferPoolBytes), size(m.RedoLogBytes), m.FlushAtCommit, strings.ToLower(m.Doublewrite), log)
	p.say("%d CPUs (%s/%s, %s), shared by MySQL, the simulated PSP, the server and the load.\n",
		r.Machine.CPUs, r.Machine.OS, r.Machine.Arch, r.Machine.Go)
	p.say("The server with N in flight: --psp-slots max(%d, N) --max-in-flight N+%d --mysql-max-open N, but %d to %d; else as shipped.\n",
		defaultSlots, inFlightSlack, leastPool, mostPool)
	p.say("Closed loop (throughput): N in flight for %s, after %s to warm up. Open loop (latency): %.0f %% of that throughput\n"+
		"for %s at fixed intervals, at most N at once, each payment timed from when it was due. Tables are empty at the start.\n\n",
		plan.Closed, plan.Warm, 100*openShare, plan.Open)
}

func size(bytes int64) string {
	switch {
	case bytes == 0:
		return "unknown"
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

const resultRow = "%9s  %-14s  %10s %9s  %8s %8s %8s  %8s %8s %8s  %7s %6s %7s %6s  %7s  %s\n"

func (p *printer) condition(c Condition) {
	p.say("%s\n", c)
	p.say(resultRow, "", "", "", "", "closed", "loop, ms", "", "open", "loop, ms", "", "CPU µs", "per", "payment", "", "server", "")
	p.say(resultRow, "in flight", "form", "payments/s", "× ceiling", "p50", "p99", "p99.9", "p50", "p99", "p99.9",
		procServer, procPSP, procMySQL, procLoad, "RSS MB", "refused")
}

func (p *printer) result(r Result) {
	cells := []any{fmt.Sprint(r.InFlight), r.form(), fmt.Sprintf("%.0f", r.Closed.PerSecond), ratio(r.Ratio)}
	for _, q := range []Quantiles{r.Closed.Quantiles, r.Open} {
		cells = append(cells, ms(q.P50), ms(q.P99), ms(q.P999))
	}
	for _, name := range []string{procServer, procPSP, procMySQL, procLoad} {
		us, ok := r.CPU[name]
		if !ok {
			cells = append(cells, "–")
			continue
		}
		cells = append(cells, fmt.Sprintf("%.0f", us))
	}
	memory := "–"
	if r.PeakBytes > 0 {
		memory = fmt.Sprintf("%.0f", float64(r.PeakBytes)/1e6)
	}
	p.say(resultRow, append(cells, memory, reasons(r.Refused))...)
	if r.Webhooks && r.Face != BareSQL {
		p.say("%9s  %-14s  %d of %d events had arrived when the load ended\n", "", "", r.Books.Events, r.Books.Payments)
	}
}

const stockRow = "  %-14s  %10s %9s %8s %8s  %10s %8s %8s  %10s %8s %8s  %s\n"

func (p *printer) stockHead(keys, n int) {
	p.say("%d keys in the table, %d in flight; PSP answers at once, no webhooks\n", keys, n)
	p.say(stockRow, "form", "payments/s", "× ceiling", "p50 ms", "p99 ms", "replays/s", "p50 ms", "p99 ms", "409s/s", "p50 ms", "p99 ms", "refused")
}

func (p *printer) stock(s Stock) {
	cells := []any{s.form(), fmt.Sprintf("%.0f", s.Payments.PerSecond), ratio(s.Ratio), ms(s.Payments.P50), ms(s.Payments.P99)}
	for _, r := range []Rate{s.Replays, s.Conflict} {
		if r.PerSecond == 0 {
			cells = append(cells, "–", "–", "–")
			continue
		}
		cells = append(cells, fmt.Sprintf("%.0f", r.PerSecond), ms(r.P50), ms(r.P99))
	}
	p.say(stockRow, append(cells, reasons(s.Refused))...)
}

func (p *printer) aims(all []Aim) {
	if len(all) == 0 {
		return
	}
	p.say("Aims, which are for a machine that does nothing else (a miss fails nothing)\n")
	for _, a := range all {
		word := "missed "
		if a.Reached {
			word = "reached"
		}
		p.say("  %s  %s: %s (aim %s)\n", word, a.What, a.Got, a.Want)
	}
	p.say("\nBooks: after every measurement, purchases told paid = payment rows = keys done = charges at the PSP.\n")
}

func (p *printer) gap() { p.say("\n") }

func ms(v float64) string { return fmt.Sprintf("%.2f", v) }

func ratio(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", v)
}

// reasons words the refusals, "0" when there were none.
func reasons(refused map[string]int64) string {
	if len(refused) == 0 {
		return "0"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		parts = append(parts, fmt.Sprintf("%d %s", refused[reason], reason))
	}
	return strings.Join(parts, ", ")
}
