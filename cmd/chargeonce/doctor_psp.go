package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"chargeonce/internal/psp"
)

// slowProbes is how many look-ups the slow mark is held against when no server's own measurements are to be had.
const slowProbes = 20

// provider checks the way to the PSP with one harmless look-up, and what its answer says.
func (d *doctor) provider(ctx context.Context) {
	client, err := d.PSP.client(quiet)
	rest := []string{"psp api key", "psp clock", "psp slow mark"}
	if err != nil {
		d.check(ctx, "psp", func(context.Context) finding {
			return fault("set CHARGEONCE_PSP_URL, CHARGEONCE_PSP_API_KEY or their flags", "%v", err)
		})
		d.unchecked("no usable configuration", rest...)
		return
	}
	defer client.Close()
	var answer psp.Probe
	var before, after time.Time
	reached := d.check(ctx, "psp", func(ctx context.Context) finding {
		before = d.now()
		if answer, err = client.Probe(ctx); err != nil {
			return fault("see that the PSP runs at "+d.PSP.URL+", can be reached from here, and that the certificates are right (--psp-tls-…)", "%v", err)
		}
		after = d.now()
		return d.reachable(answer)
	})
	if reached.Status == fail {
		d.unchecked("the PSP does not answer", rest...)
		return
	}
	d.check(ctx, "psp api key", func(context.Context) finding { return d.accepted(answer) })
	d.check(ctx, "psp clock", func(context.Context) finding {
		if answer.Date.IsZero() {
			return doubt("ask the PSP why", "its answers carry no Date")
		}
		// The header has whole seconds: its time is somewhere in the one that it names.
		theirs, ours := answer.Date.Add(500*time.Millisecond), before.Add(after.Sub(before)/2)
		return judgeClock("the PSP", theirs.Sub(ours), after.Sub(before)/2+500*time.Millisecond)
	})
	d.check(ctx, "psp slow mark", func(ctx context.Context) finding { return d.slowMark(ctx, client) })
}

func (d *doctor) reachable(p psp.Probe) finding {
	u, err := url.Parse(d.PSP.URL)
	if err != nil || u.Scheme == "https" || isLoopback(u.Hostname()) {
		return fine("answers in %s", p.Took.Round(time.Millisecond))
	}
	return doubt("use its https address", "answers, but in clear: the network can read the API key")
}

func (d *doctor) accepted(p psp.Probe) finding {
	key, err := secret("psp-api-key", d.PSP.APIKey, d.PSP.APIKeyFile)
	switch {
	case err != nil:
		return fault("mend the file", "%v", err)
	case p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden:
		return fault("set CHARGEONCE_PSP_API_KEY or --psp-api-key-file to a key that is valid there", "the PSP answers %d: it does not take our key", p.Status)
	case !p.Accepted:
		return fault("see that --psp-url is the PSP's address, with its path", "a look-up is answered %d, and not as the contract has it", p.Status)
	case demoPSPKey.is(key):
		return doubt("use a key of your own", "accepted, but it is the demo's, which everybody knows")
	}
	return fine("accepted")
}

// slowMark holds the mark against what a server measured, or else against look-ups, which are the least that a charge takes.
func (d *doctor) slowMark(ctx context.Context, client *psp.Client) finding {
	const fix = "raise --psp-slow (and --psp-attempt-timeout, which must not be below it)"
	mark := d.PSP.slowMark()
	if d.AdminURL != "" {
		p99, charges, err := measuredP99(ctx, d.AdminURL)
		switch {
		case err != nil:
			return doubt("see that --admin-url is a server's admin port", "%v", err)
		case charges < leastCharges:
			return doubt("run doctor again once it has taken more", "that server has measured %d charges; %d are needed", charges, leastCharges)
		case p99.least >= mark:
			return fault(fix, "the mark is %s and the measured p99 of %d charges above %s: the breaker opens on a PSP that works", mark, charges, p99.least)
		case p99.most > mark:
			return doubt(fix, "the mark is %s and the measured p99 of %d charges between %s and %s: perhaps above it", mark, charges, p99.least, p99.most)
		}
		return fine("%s, above the measured p99 of %d charges, at most %s", mark, charges, p99.most)
	}
	var took []time.Duration
	for range slowProbes {
		p, err := client.Probe(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && len(took) > 0 {
			break // the PSP is slow, and what there is says so
		}
		if err != nil {
			return doubt("see that the PSP answers", "%v", err)
		}
		took = append(took, p.Took)
	}
	slices.Sort(took)
	median, slowest := took[len(took)/2], took[len(took)-1]
	switch {
	case median >= mark:
		return fault(fix, "the mark is %s and a mere look-up takes %s: the breaker opens on a PSP that works", mark, median.Round(time.Millisecond))
	case slowest >= mark:
		return doubt(fix, "the mark is %s and the slowest of %d look-ups took %s", mark, len(took), slowest.Round(time.Millisecond))
	}
	return fine("%s, above the slowest of %d look-ups, %s; --admin-url holds it against the p99 of charges", mark, len(took), slowest.Round(time.Millisecond))
}
